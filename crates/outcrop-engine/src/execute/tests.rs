use super::*;
use crate::program::{Cost, Declaration, Kernel, Operand};
use crate::runtime::Settings;
use crate::schedule::{Policy, schedule};
use crate::watch::Unwatched;
use outcrop_store::io::EngineChoice;
use outcrop_store::{DType, Dims, TileGrid};

struct Nothing;

impl Kernel for Nothing {
    // SAFETY: it touches nothing.
    unsafe fn run(&self, _: Running<'_>) -> Result<()> {
        Ok(())
    }
}

/// A program of one step, which writes a tile.
fn one_step() -> Program {
    let mut program = Program::new("one step");
    let what = Declaration {
        name: "T",
        role: Role::Temporary,
        dtype: DType::U8,
        grid: TileGrid::new(&[4096], &[4096]).unwrap(),
        overlap: Dims::new(),
        origin: Vec::new(),
        initial: None,
        frame: 4096,
        skewed: false,
        staging: 0,
        pieces: 1,
        commit: 0,
    };
    program.array(what, |_| Ok(Cost { load: 4096, store: 4096 })).unwrap();
    program.kernel("nothing", 1.0, Arc::new(Nothing));
    program.step(0, &[Operand::write(TileId(0))], &[], 1.0);
    program
}

/// Who finds no memory for a tile waited ten seconds, also where nobody was there to give some back.
#[test]
fn memory_is_waited_for_where_there_may_be_more() {
    let settings = Settings { memory: 1 << 20, threads: 1, scratch: None, engine: EngineChoice::Threads };
    let runtime = Runtime::new(settings).unwrap();
    let program = one_step();
    let schedule = schedule(&program, 1 << 20, &[], Policy::Lru, &mut Unwatched).unwrap();
    let (stores, caller) = ([None], ());
    let work =
        Work { program: &program, schedule: &schedule, stores: &stores, caller: &caller, commits: false };
    let none = Crew {
        threads: 0,
        loaders: 0,
        storers: 0,
        load_staging: 0,
        store_staging: 0,
        reserved: 0,
        room: 1 << 20,
    };
    let run = Run {
        runtime: &runtime,
        work: &work,
        crew: none,
        scratch: None,
        timeline: None,
        memory: 0,
        state: Mutex::new(State::new(&program, std::iter::empty())),
        lanes: Default::default(),
        caller: Condvar::new(),
        cancel: Cancel::default(),
    };
    let mut state = run.lock();
    let held = runtime.frame(1 << 20, "all there is").unwrap();
    run.issue(&mut state);
    assert!(state.starved.is_some());
    run.look_for_memory(&mut state, true);
    assert!(state.starved.is_some() && state.failure.is_none());
    drop(held);
    // What has come back is found, also by who would not have waited.
    run.look_for_memory(&mut state, false);
    assert!(state.starved.is_none() && state.failure.is_none() && state.used == 4096);

    *state = State::new(&program, std::iter::empty());
    let _held = runtime.frame(1 << 20, "all there is").unwrap();
    run.issue(&mut state);
    run.look_for_memory(&mut state, false);
    assert!(matches!(state.failure, Some(Error::Budget { .. })));
}
