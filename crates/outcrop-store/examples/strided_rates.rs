//! Measures `strided::copy` against a plain copy of as many bytes, case by case.
//!
//! `strided_rates [--pages huge|small] [--sizes 1,2,4,8,16] [--rounds 9] [--csv] [part of a case's name]`
//!
//! Both copies take turns, so that whatever else the machine does slows down both; what counts is the median
//! of the ratios. Every case moves about 128 MiB between buffers that were touched before, in one call or in
//! many that lie one after the other.

use outcrop_store::strided;
use std::time::Instant;

const SOURCE: usize = 160 << 20;
const TARGET: usize = 1400 << 20;

/// Memory on pages of a chosen size.
struct Memory {
    start: *mut u8,
}

impl Memory {
    fn new(bytes: usize, huge: bool) -> Memory {
        const HUGE: usize = 2 << 20;
        // SAFETY: a new mapping, owned from here on until the process ends; it is aligned inside itself.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), bytes + HUGE, protection, flags, -1, 0);
            assert!(start != libc::MAP_FAILED, "no memory");
            let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            libc::madvise(start, bytes + HUGE, advice);
            let start = start.cast::<u8>();
            let start = start.add(start.addr().wrapping_neg() % HUGE);
            start.write_bytes(1, bytes);
            Memory { start }
        }
    }
}

/// One call: where it starts on both sides.
type Start = (usize, usize);

/// Blocks of one shape, copied one after the other.
struct Case {
    name: String,
    size: usize,
    shape: Vec<u64>,
    dst: Vec<isize>,
    src: Vec<isize>,
    starts: Vec<Start>,
}

impl Case {
    fn bytes(&self) -> usize {
        self.shape.iter().product::<u64>() as usize * self.size * self.starts.len()
    }

    /// Checks that the case stays inside the buffers: every call of this program is safe by this.
    fn check(&self) {
        for (strides, limit, side) in [(&self.dst, TARGET, 0), (&self.src, SOURCE, 1)] {
            let (mut low, mut high) = (0isize, self.size as isize);
            for (&n, &stride) in self.shape.iter().zip(strides) {
                let reach = (n as isize - 1) * stride;
                low += reach.min(0);
                high += reach.max(0);
            }
            for start in &self.starts {
                let start = if side == 0 { start.0 } else { start.1 } as isize;
                assert!(
                    start + low >= 0 && start + high <= limit as isize,
                    "{} leaves its buffer",
                    self.name
                );
            }
        }
        assert!(self.bytes() <= SOURCE, "{} is too large", self.name);
    }
}

/// Arrays of `h` rows and `w` columns, turned or turned over as a whole.
fn whole(cases: &mut Vec<Case>, size: usize, h: usize, w: usize) {
    let (s, row) = (size as isize, (w * size) as isize);
    let (right, down) = ((w - 1) * size, (h - 1) * w * size);
    let turned = (vec![w as u64, h as u64], vec![(h * size) as isize, s]);
    let kept = (vec![h as u64, w as u64], vec![row, s]);
    for (name, layout, src, start) in [
        ("transpose", &turned, [s, row], 0),
        ("rotate 90", &turned, [-s, row], right),
        ("rotate 270", &turned, [s, -row], down),
        ("antitranspose", &turned, [-s, -row], right + down),
        ("flip left-right", &kept, [row, -s], right),
        ("flip up-down", &kept, [-row, s], down),
        ("rotate 180", &kept, [-row, -s], right + down),
    ] {
        cases.push(Case {
            name: format!("{name} {h}x{w}"),
            size,
            shape: layout.0.clone(),
            dst: layout.1.clone(),
            src: src.to_vec(),
            starts: vec![(0, start)],
        });
    }
}

/// Pixels of three elements that stay together.
fn pixels(cases: &mut Vec<Case>, size: usize, h: usize, w: usize) {
    let s = size as isize;
    let (pixel, row) = (3 * s, (w * 3 * size) as isize);
    cases.push(Case {
        name: format!("pixels, transpose {h}x{w}x3"),
        size,
        shape: vec![w as u64, h as u64, 3],
        dst: vec![h as isize * pixel, pixel, s],
        src: vec![pixel, row, s],
        starts: vec![(0, 0)],
    });
    cases.push(Case {
        name: format!("pixels, flip left-right {h}x{w}x3"),
        size,
        shape: vec![h as u64, w as u64, 3],
        dst: vec![row, pixel, s],
        src: vec![row, -pixel, s],
        starts: vec![(0, row as usize - 3 * size)],
    });
}

/// Blocks of `h` rows and `w` columns that lie dense in the source and are transposed into rows `pitch` bytes
/// apart. One follows the other in the source; in the target, one lies beside the other while a row has room.
fn blocks(cases: &mut Vec<Case>, name: &str, size: usize, h: usize, w: usize, pitch: usize, beside: bool) {
    let (s, row) = (size as isize, (w * size) as isize);
    let bytes = h * w * size;
    let span = w * pitch;
    let count = (128 << 20) / bytes;
    let starts = (0..count).map(|k| {
        let per_row = if beside { pitch / (h * size) } else { 1 };
        (k / per_row * span + k % per_row * h * size, k * bytes)
    });
    let starts: Vec<Start> = starts.filter(|(to, _)| to + span <= TARGET).collect();
    let case = |name: String, src: [isize; 2], first: usize| Case {
        name,
        size,
        shape: vec![w as u64, h as u64],
        dst: vec![pitch as isize, s],
        src: src.to_vec(),
        starts: starts.iter().map(|&(to, from)| (to, from + first)).collect(),
    };
    cases.push(case(format!("{name} {h}x{w} to {pitch}"), [s, row], 0));
    cases.push(case(format!("{name} {h}x{w} to {pitch}, 270"), [s, -row], (h - 1) * w * size));
}

fn cases(size: usize) -> Vec<Case> {
    let mut all = Vec::new();
    let (h, w) = match size {
        1 => (13901, 9267),
        2 => (9267, 7001),
        4 => (6551, 5003),
        8 => (4634, 3517),
        _ => (3301, 2477),
    };
    whole(&mut all, size, h, w);
    let side = [8192, 8192, 4096, 4096, 2048][size.ilog2() as usize];
    whole(&mut all, size, (128 << 20) / size / side, side);
    if size == 1 {
        whole(&mut all, 1, 9267, 4634);
        whole(&mut all, 1, 8192, 8192);
    }
    if size == 8 {
        whole(&mut all, 8, 4634, 2317);
    }
    if size <= 4 {
        pixels(&mut all, size, h / 2, w / 3 * 2);
    }
    for (rows, bytes) in [(113, 28000), (226, 24000), (480, 20480)] {
        blocks(&mut all, "a: strip", size, rows, bytes / size, 46341 * size, true);
    }
    for pitch in [46341, 65536, 92683] {
        blocks(&mut all, "b: narrow", size, 18000 / size, 226, pitch, false);
    }
    blocks(&mut all, "c: block", size, 512, 512, 512 * size, false);
    blocks(&mut all, "c: block", size, 512, 512, 9267 * size, true);
    blocks(&mut all, "c: block", size, 4096, 256, 4096 * size, false);
    blocks(&mut all, "c: block", size, 256, 4096, 256 * size, false);
    all
}

fn main() {
    let (mut huge, mut sizes, mut rounds, mut csv) = (true, vec![1, 2, 4, 8, 16], 9, false);
    let mut wanted = String::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--pages" => huge = value() == "huge",
            "--sizes" => sizes = value().split(',').map(|n| n.parse().expect("a size")).collect(),
            "--rounds" => rounds = value().parse().expect("a number"),
            "--csv" => csv = true,
            _ => wanted = argument,
        }
    }
    let (source, target) = (Memory::new(SOURCE, huge), Memory::new(TARGET, huge));
    let pages = if huge { "huge" } else { "small" };
    if !csv {
        println!(
            "{:<44} {:>4} {:>6} {:>6} {:>6}",
            format!("case, on {pages} pages"),
            "size",
            "GB/s",
            "plain",
            "ratio"
        );
    }
    for case in sizes.iter().flat_map(|&size| cases(size)).filter(|case| case.name.contains(&wanted)) {
        case.check();
        let bytes = case.bytes();
        let mut results: Vec<(f64, f64, f64)> = Vec::new();
        for round in 0..=rounds {
            let start = Instant::now();
            // SAFETY: both buffers are at least this long.
            unsafe { std::ptr::copy_nonoverlapping(source.start, target.start, bytes) };
            let plain = start.elapsed().as_secs_f64();
            let start = Instant::now();
            for &(to, from) in &case.starts {
                // SAFETY: `Case::check` has found every index inside the buffers.
                unsafe {
                    let (to, from) = (target.start.add(to), source.start.add(from));
                    strided::copy(to, &case.dst, from, &case.src, &case.shape, case.size);
                }
            }
            let turned = start.elapsed().as_secs_f64();
            // The first round warms both up.
            if round > 0 {
                results.push((plain / turned, bytes as f64 / 1e9 / turned, bytes as f64 / 1e9 / plain));
            }
        }
        results.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ratio = results[results.len() / 2].0;
        results.sort_by(|a, b| a.1.total_cmp(&b.1));
        let rate = results[results.len() / 2].1;
        results.sort_by(|a, b| a.2.total_cmp(&b.2));
        let plain = results[results.len() / 2].2;
        if csv {
            println!("{pages};{};{};{rate:.2};{plain:.2};{ratio:.3}", case.name, case.size);
        } else {
            println!("{:<44} {:>4} {rate:>6.2} {plain:>6.2} {ratio:>6.2}", case.name, case.size);
        }
    }
}
