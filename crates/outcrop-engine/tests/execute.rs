//! Runs of random programs give what the same steps give one after the other.

use outcrop_engine::plan;
use outcrop_engine::plan::speeds::Speeds;
use outcrop_engine::program::{Cost, Declaration, Kernel, Operand, Program, Role, Running, TileId};
use outcrop_engine::{Runtime, Settings, Unwatched};
use outcrop_store::io::{Cancel, EngineChoice};
use outcrop_store::store::open::{As, NewFormat, create, open};
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, DType, Dims, Error, Result, TileGrid};
use proptest::prelude::*;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

const ITEMS: usize = 1000;
const FRAME: usize = 12288;

/// Mixes every tile that is written with all operands.
struct Mix {
    /// What kind of use each tile is of, two bits each.
    code: u16,
    fails: bool,
}

fn mix(tiles: &mut [Vec<u64>], kernel: u16, reads: &[bool], writes: &[bool]) {
    let sum = |i: usize, tiles: &[Vec<u64>]| {
        (0..tiles.len()).filter(|&t| reads[t]).fold(u64::from(kernel) + 17, |acc, t| {
            acc.wrapping_mul(6364136223846793005).wrapping_add(tiles[t][i])
        })
    };
    for i in 0..ITEMS {
        let value = sum(i, tiles);
        for t in (0..tiles.len()).filter(|&t| writes[t]) {
            tiles[t][i] = value.wrapping_add(t as u64);
        }
    }
}

impl Kernel for Mix {
    // SAFETY: what the caller promises is what the slices below need.
    unsafe fn run(&self, Running { tiles, arguments, .. }: Running<'_>) -> Result<()> {
        assert!(!self.fails, "as it was told");
        assert_eq!(arguments, &[u64::from(self.code), tiles.len() as u64][..usize::from(self.code % 3)]);
        let slices: Vec<&mut [u64]> = tiles
            .iter()
            // SAFETY: the frames have room for the elements; writers are alone; readers only read.
            .map(|t| unsafe { std::slice::from_raw_parts_mut(t.start.cast::<u64>(), ITEMS) })
            .collect();
        let mut copies: Vec<Vec<u64>> = slices.iter().map(|s| s.to_vec()).collect();
        let (reads, writes) = uses(self.code, tiles.len());
        mix(&mut copies, self.code, &reads, &writes);
        for (i, slice) in slices.into_iter().enumerate().filter(|(i, _)| writes[*i]) {
            slice.copy_from_slice(&copies[i]);
        }
        Ok(())
    }
}

fn uses(kernel: u16, count: usize) -> (Vec<bool>, Vec<bool>) {
    let of = |i: usize| kernel >> (2 * i) & 3;
    ((0..count).map(|i| of(i) != 1).collect(), (0..count).map(|i| of(i) != 0).collect())
}

fn canvas(region: ArrayBox, values: &mut [u64]) -> Canvas {
    let patch = Patch::dense(region.clone(), values.as_mut_ptr().cast(), 0, 8);
    // SAFETY: the values are as many as the box has.
    unsafe { Canvas::new(region, 8, [patch]) }
}

fn make(runtime: &Runtime, path: &Path, tiles: u64) -> Arc<dyn Store> {
    let format = NewFormat::Zarr {
        tile: Some([ITEMS as u64].as_slice().into()),
        encoding: Default::default(),
        labels: Default::default(),
    };
    create(runtime.disk(), path, &[tiles * ITEMS as u64], DType::U64, format, true).unwrap()
}

const TILES: u64 = 5;

/// A program over an input, an output that starts as the input, and a temporary; and its steps.
type Steps = Vec<(u16, Vec<u32>)>;

fn program(given: &[Vec<(u32, u16)>], fails_at: Option<u16>) -> (Program, Steps) {
    let mut program = Program::new("random");
    let grid = TileGrid::new(&[TILES * ITEMS as u64], &[ITEMS as u64]).unwrap();
    let mut declare = |name: &str, role, initial| {
        let what = Declaration {
            name,
            role,
            dtype: DType::U64,
            grid: grid.clone(),
            overlap: Dims::new(),
            origin: Vec::new(),
            initial,
            frame: 8004,
            skewed: false,
            staging: 0,
            pieces: 1,
            commit: 0,
        };
        program.array(what, |_| Ok(Cost { load: 8192, store: 8192 })).unwrap()
    };
    let a = declare("A", Role::Input, None);
    declare("X", Role::Output, Some(a));
    declare("T", Role::Temporary, None);
    (0..64).for_each(|code| {
        program.kernel("mix", 1e9, Arc::new(Mix { code, fails: fails_at == Some(code) }));
    });
    let mut defined = HashSet::new();
    let mut steps = Vec::new();
    for step in given {
        let mut seen = HashSet::new();
        let (mut code, mut operands) = (0u16, Vec::new());
        for &(tile, access) in step.iter().filter(|(t, _)| seen.insert(*t)) {
            let access = match tile {
                0..5 => 0,
                10.. if !defined.contains(&tile) => 1,
                _ => access,
            };
            if access != 0 {
                defined.insert(tile);
            }
            code |= access << (2 * operands.len());
            let t = TileId(tile);
            operands.push([Operand::read(t), Operand::write(t), Operand::update(t)][access as usize]);
        }
        let arguments = [u64::from(code), operands.len() as u64];
        program.step(code, &operands, &arguments[..usize::from(code % 3)], 1000.0);
        steps.push((code, operands.iter().map(|o| o.tile().0).collect()));
    }
    (program, steps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn runs_give_what_the_sequence_gives(
        given in proptest::collection::vec(proptest::collection::vec((0u32..15, 0u16..3), 1..4), 1..80),
        frames in 3usize..8,
        threads in 1usize..5,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let memory = (frames * FRAME + 200_000).max(256 << 10);
        let settings = Settings { memory, threads, scratch: Some(dir.path().into()), engine: EngineChoice::Auto };
        let runtime = Runtime::new(settings).unwrap();
        let whole = ArrayBox::new([0], [TILES * ITEMS as u64]);
        let mut values: Vec<u64> = (0..TILES * ITEMS as u64).map(|i| i * i + 1).collect();
        let input = make(&runtime, &dir.path().join("a"), TILES);
        let mut mover = Mover::new(runtime.disk(), runtime.budget(), 65536, &Cancel::default()).unwrap();
        input.store(&mut mover, &canvas(whole.clone(), &mut values)).unwrap();
        input.commit(&mut mover).unwrap();
        drop((input, mover));
        let input = open(runtime.disk(), &dir.path().join("a"), &As::Found, false).unwrap();

        let (program, steps) = program(&given, None);
        let mut expected: Vec<Vec<u64>> = values.chunks(ITEMS).map(<[u64]>::to_vec).collect();
        expected.extend(expected.clone());
        expected.extend((0..TILES).map(|_| vec![0; ITEMS]));
        let mut written = HashSet::new();
        for (code, tiles) in &steps {
            let mut some: Vec<Vec<u64>> = tiles.iter().map(|&t| expected[t as usize].clone()).collect();
            let (reads, writes) = uses(*code, tiles.len());
            mix(&mut some, *code, &reads, &writes);
            for (i, &t) in tiles.iter().enumerate().filter(|(i, _)| writes[*i]) {
                expected[t as usize] = some[i].clone();
                written.insert(t);
            }
        }

        // Hold back all but a few frames.
        let spare = runtime.budget().frame(memory - frames * FRAME - 120_000, "to make it tight").unwrap();
        let speeds = Speeds { read: 1e9, write: 1e9, both: 1e9, checksum: 1e10, request: 0.0, threads };
        let stores = vec![Some(input), Some(make(&runtime, &dir.path().join("x"), TILES)), None];
        let plan = plan::plan(&runtime, program, &stores, speeds, true, &mut Unwatched).unwrap();
        let report = plan.run(&runtime, &stores, &(), true, None, &mut |_, _| true).unwrap();
        prop_assert_eq!(report.bytes_read, plan.bytes_read());
        drop(spare);
        let mut found = vec![0; values.len()];
        let mut mover = Mover::new(runtime.disk(), runtime.budget(), 65536, &Cancel::default()).unwrap();
        stores[1].as_ref().unwrap().load(&mut mover, &canvas(whole, &mut found)).unwrap();
        for t in (5..10).filter(|t| written.contains(t)) {
            let at = (t as usize - 5) * ITEMS;
            prop_assert_eq!(&found[at..at + ITEMS], &expected[t as usize][..], "tile {}", t);
        }
        drop(mover);
        prop_assert_eq!(runtime.budget().used(), runtime.resident_bytes());
    }
}

#[test]
fn a_step_that_panics_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { memory: 1 << 20, threads: 2, scratch: None, engine: EngineChoice::Auto };
    let runtime = Runtime::new(settings).unwrap();
    let (program, _) = program(&[vec![(10, 1)], vec![(5, 1), (10, 0)]], Some(1));
    let stores = vec![None, Some(make(&runtime, &dir.path().join("x"), TILES)), None];
    let speeds = Speeds { read: 1e9, write: 1e9, both: 1e9, checksum: 1e10, request: 0.0, threads: 2 };
    let plan = plan::plan(&runtime, program, &stores, speeds, true, &mut Unwatched).unwrap();
    let failed = plan.run(&runtime, &stores, &(), true, None, &mut |_, _| true);
    assert!(matches!(&failed, Err(Error::Internal(why)) if why.contains("as it was told")), "{failed:?}");
    assert_eq!(runtime.budget().used(), 0);
    assert!(!dir.path().join("x").exists());
}

#[test]
fn a_run_that_is_stopped_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { memory: 2 << 20, threads: 2, scratch: None, engine: EngineChoice::Auto };
    let runtime = Runtime::new(settings).unwrap();
    let given: Vec<Vec<(u32, u16)>> = (0..20_000).map(|_| vec![(5, 2)]).collect();
    let (program, _) = program(&given, None);
    let input = make(&runtime, &dir.path().join("a"), TILES);
    let stores = vec![Some(input), Some(make(&runtime, &dir.path().join("x"), TILES)), None];
    let speeds = Speeds { read: 1e9, write: 1e9, both: 1e9, checksum: 1e10, request: 0.0, threads: 2 };
    let plan = plan::plan(&runtime, program, &stores, speeds, true, &mut Unwatched).unwrap();
    let failed = plan.run(&runtime, &stores, &(), true, None, &mut |_, _| false);
    assert!(matches!(failed, Err(Error::Interrupted)));
    drop(stores);
    assert_eq!(runtime.budget().used(), 0);
}
