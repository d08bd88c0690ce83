//! What the engine itself costs: steps that do nothing. Prints one JSON object a line.

use outcrop_engine::execute::{Crew, Work, run};
use outcrop_engine::program::{Cost, Declaration, Kernel, Operand, Program, Role, Running};
use outcrop_engine::report::peak_rss;
use outcrop_engine::{Runtime, Settings, Unwatched, schedule};
use outcrop_store::io::EngineChoice;
use outcrop_store::{DType, Dims, Result, TileGrid};
use std::sync::Arc;
use std::time::Instant;

struct Nothing;

impl Kernel for Nothing {
    // SAFETY: nothing is asked of the caller: no tile is touched.
    unsafe fn run(&self, _: Running<'_>) -> Result<()> {
        Ok(())
    }
}

/// The steps of a product of `n` x `n` x `n` tiles of one block each.
fn product(n: u64) -> Program {
    let mut program = Program::new("empty");
    let kernel = program.kernel("nothing", 1e12, Arc::new(Nothing));
    let mut array = |name: &str| {
        let grid = TileGrid::new(&[n * 16, n * 32], &[16, 32]).expect("a grid");
        let what = Declaration {
            name,
            role: Role::Temporary,
            dtype: DType::F64,
            grid,
            overlap: Dims::new(),
            origin: Vec::new(),
            initial: None,
            frame: 0,
            skewed: false,
            staging: 0,
            pieces: 1,
            commit: 0,
        };
        program.array(what, |_| Ok(Cost { load: 4096, store: 4096 })).expect("few tiles")
    };
    let (a, b, c) = (array("A"), array("B"), array("C"));
    for i in 0..n {
        for j in 0..n {
            program.step(kernel, &[Operand::write(program.at(a, i, j))], &[], 1.0);
            program.step(kernel, &[Operand::write(program.at(b, i, j))], &[], 1.0);
            program.step(kernel, &[Operand::write(program.at(c, i, j))], &[], 1.0);
        }
    }
    for i in 0..n {
        for j in 0..n {
            for k in 0..n {
                let operands = [
                    Operand::update(program.at(c, i, j)),
                    Operand::read(program.at(a, i, k)),
                    Operand::read(program.at(b, k, j)),
                ];
                program.step(kernel, &operands, &[], 1.0);
            }
        }
    }
    program
}

fn main() -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let settings = Settings { memory: 1 << 30, threads, scratch: None, engine: EngineChoice::Auto };
    let runtime = Runtime::new(settings)?;
    // Before anything large: scheduling a million steps that evict all the time.
    let before = peak_rss();
    let program = product(100);
    let begin = Instant::now();
    let scheduled = schedule::best(&program, 3000 * 4096, &[], &mut Unwatched)?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{{\"what\":\"schedule\",\"steps\":{},\"seconds\":{seconds:.3},\"bytes\":{},\"bytes_kept\":{},\"spilled\":{}}}",
        program.len(),
        peak_rss() - before,
        program.bytes() + scheduled.bytes(),
        scheduled.bytes_written(),
    );
    drop(scheduled);
    let capacity = 30_000 * 4096;
    let scheduled = schedule::best(&program, capacity, &[], &mut Unwatched)?;
    let stores = vec![None; program.arrays().len()];
    let work = Work { program: &program, schedule: &scheduled, stores: &stores, caller: &(), commits: true };
    let crew = Crew {
        threads,
        loaders: 1,
        storers: 1,
        load_staging: 0,
        store_staging: 0,
        reserved: 0,
        room: capacity,
    };
    let report = run(&runtime, &work, crew, None, &mut |_, _| true)?;
    let seconds = report.elapsed.as_secs_f64();
    println!(
        "{{\"what\":\"run\",\"steps\":{},\"threads\":{threads},\"seconds\":{seconds:.3},\"steps_per_second\":{:.0}}}",
        program.len(),
        program.len() as f64 / seconds,
    );
    Ok(())
}
