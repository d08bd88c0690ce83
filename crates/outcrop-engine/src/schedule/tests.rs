//! Schedules are lawful, and as cheap as the best there are.

use super::*;
use crate::program::{Cost, Declaration, Kernel, Operand, Program, Running};
use crate::watch::Unwatched;
use outcrop_store::{DType, Dims, TileGrid};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const TILE: usize = 4096;

struct Nothing;

impl Kernel for Nothing {
    // SAFETY: nothing is asked of the caller: no tile is touched.
    unsafe fn run(&self, _: Running<'_>) -> outcrop_store::Result<()> {
        Ok(())
    }
}

fn array(program: &mut Program, name: &str, role: Role, tiles: u64, initial: Option<ArrayId>) -> ArrayId {
    let grid = TileGrid::new(&[tiles * 512], &[512]).unwrap();
    let what = Declaration {
        name,
        role,
        dtype: DType::F64,
        grid,
        overlap: Dims::new(),
        origin: Vec::new(),
        initial,
        frame: 0,
        skewed: false,
        staging: 0,
        pieces: 1,
        commit: 0,
    };
    let bytes = TILE as u64;
    program.array(what, |_| Ok(Cost { load: bytes, store: bytes })).unwrap()
}

/// Steps that each read some tiles of an input of `tiles` tiles.
fn reading(steps: &[Vec<u32>], tiles: u64) -> Program {
    let mut program = Program::new("reading");
    array(&mut program, "A", Role::Input, tiles, None);
    let kernel = program.kernel("look", 1.0, Arc::new(Nothing));
    for step in steps {
        let mut seen = HashSet::new();
        let operands: Vec<Operand> =
            step.iter().filter(|t| seen.insert(**t)).map(|&t| Operand::read(TileId(t))).collect();
        program.step(kernel, &operands, &[], 1.0);
    }
    program
}

/// Plays a schedule and panics where it breaks a rule.
fn check(program: &Program, schedule: &Schedule, capacity: usize) {
    let mut memory: HashMap<TileId, bool> = schedule.adopted.iter().map(|&t| (t, false)).collect();
    let mut stored: HashSet<TileId> = HashSet::new();
    let mut written: HashSet<TileId> = HashSet::new();
    let mut step = 0;
    let role = |t: TileId| program.array_at(program.array_of(t)).role;
    let mut traffic = vec![Traffic::default(); program.arrays().len()];
    let mut used: usize = memory.keys().map(|&t| program.frame(t)).sum();
    for action in schedule.actions() {
        match action {
            Action::Step => {
                for o in program.step_at(step).operands {
                    let dirty = memory.get_mut(&o.tile()).expect("an operand is in memory");
                    *dirty |= o.writes();
                    if o.writes() {
                        written.insert(o.tile());
                        stored.remove(&o.tile());
                    }
                }
                step += 1;
            }
            Action::Create(t) | Action::Load(t) | Action::LoadInitial(t) => {
                assert!(memory.insert(t, false).is_none(), "loaded twice");
                used += program.frame(t);
                assert!(used <= capacity, "more than there is");
                match action {
                    Action::Load(t) => {
                        assert!(role(t) == Role::Input || stored.contains(&t), "loaded before it was stored");
                        traffic[program.array_of(t).0 as usize].read += program.cost(t).load;
                    }
                    Action::LoadInitial(t) => {
                        assert!(!written.contains(&t), "what was written is forgotten");
                        let from = program.initial_of(t).unwrap();
                        traffic[program.array_of(from).0 as usize].read += program.cost(from).load;
                    }
                    _ => {}
                }
            }
            Action::Store(t) => {
                memory.insert(t, false).expect("in memory");
                stored.insert(t);
                traffic[program.array_of(t).0 as usize].written += program.cost(t).store;
            }
            Action::Drop(t) | Action::Discard(t) => {
                let dirty = memory.remove(&t).expect("in memory");
                used -= program.frame(t);
                assert!(!dirty || matches!(action, Action::Discard(_)), "a changed tile is lost");
            }
        }
    }
    assert_eq!(step, program.len());
    assert!(memory.values().all(|dirty| !dirty));
    for t in (0..program.tiles() as u32).map(TileId).filter(|&t| role(t) == Role::Output) {
        assert!(!written.contains(&t) || stored.contains(&t), "an output is not stored");
    }
    assert_eq!(traffic, schedule.traffic);
    assert!(schedule.peak <= capacity);
}

/// The fewest loads with `frames` frames, by trying everything.
fn fewest_loads(program: &Program, frames: usize) -> u64 {
    let mut states: HashMap<u32, u64> = HashMap::from([(0, 0)]);
    for s in 0..program.len() {
        let need = program.step_at(s).operands.iter().fold(0u32, |m, o| m | 1 << o.tile().0);
        let mut next: HashMap<u32, u64> = HashMap::new();
        for (&held, &loads) in &states {
            let all = held | need;
            let new = loads + u64::from((need & !held).count_ones());
            // Every way to leave only so many; dropping more than needed never helps.
            let mut open = vec![all];
            let mut seen = HashSet::new();
            while let Some(set) = open.pop() {
                if !seen.insert(set) {
                    continue;
                }
                if set.count_ones() as usize <= frames {
                    let best = next.entry(set).or_insert(u64::MAX);
                    *best = new.min(*best);
                    continue;
                }
                open.extend((0..32).filter(|b| set & !need & 1 << b != 0).map(|b| set & !(1 << b)));
            }
        }
        states = next;
    }
    states.into_values().min().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn clean_tiles_are_evicted_as_well_as_can_be(
        steps in proptest::collection::vec(proptest::collection::vec(0u32..9, 1..4), 1..24),
        frames in 3usize..7,
    ) {
        let program = reading(&steps, 9);
        let schedule = best(&program, frames * TILE, &[], &mut Unwatched).unwrap();
        check(&program, &schedule, frames * TILE);
        prop_assert_eq!(schedule.bytes_read(), fewest_loads(&program, frames) * TILE as u64);
    }

    #[test]
    fn schedules_of_any_program_are_lawful(
        steps in proptest::collection::vec(proptest::collection::vec((0u32..24, 0u8..3), 1..4), 1..60),
        frames in 3usize..9,
        resident in proptest::collection::btree_set(0u32..6, 0..6),
    ) {
        let mut program = Program::new("any");
        let a = array(&mut program, "A", Role::Input, 6, None);
        array(&mut program, "X", Role::Output, 6, Some(a));
        array(&mut program, "T", Role::Temporary, 6, Some(a));
        array(&mut program, "U", Role::Temporary, 6, None);
        let kernel = program.kernel("do", 1.0, Arc::new(Nothing));
        let mut defined = HashSet::new();
        for step in &steps {
            let mut seen = HashSet::new();
            let mut operands = Vec::new();
            for &(tile, access) in step.iter().filter(|(t, _)| seen.insert(*t)) {
                let t = TileId(tile);
                // U is read only after it was written.
                operands.push(match (tile, access) {
                    (0..6, _) => Operand::read(t),
                    (18.., 0 | 2) if !defined.contains(&tile) => { defined.insert(tile); Operand::write(t) }
                    (_, 0) => Operand::read(t),
                    (_, 1) => { defined.insert(tile); Operand::write(t) }
                    _ => Operand::update(t),
                });
            }
            program.step(kernel, &operands, &[], 1.0);
        }
        let resident: Vec<TileId> = resident.into_iter().map(TileId).collect();
        let capacity = frames * TILE;
        let policies = [Policy::NextUse { store: 1.0 }, Policy::CleanFirst, Policy::Lru, Policy::CleanFirstLru];
        for policy in policies {
            let resident = if policy.knows_the_future() { &resident[..resident.len().min(frames)] } else { &[] };
            let found = schedule(&program, capacity, resident, policy, &mut Unwatched).unwrap();
            check(&program, &found, capacity);
        }
        // The same program gives the same schedule.
        let (one, other) = (best(&program, capacity, &[], &mut Unwatched).unwrap(), best(&program, capacity, &[], &mut Unwatched).unwrap());
        prop_assert_eq!(one.events, other.events);
    }
}

#[test]
fn a_dead_temporary_is_never_written() {
    let mut program = Program::new("chain");
    array(&mut program, "T", Role::Temporary, 100, None);
    let kernel = program.kernel("next", 1.0, Arc::new(Nothing));
    program.step(kernel, &[Operand::write(TileId(0))], &[], 1.0);
    for i in 1..100 {
        program.step(kernel, &[Operand::write(TileId(i)), Operand::read(TileId(i - 1))], &[], 1.0);
    }
    let found = best(&program, 2 * TILE, &[], &mut Unwatched).unwrap();
    check(&program, &found, 2 * TILE);
    assert_eq!((found.bytes_read(), found.bytes_written(), found.scratch), (0, 0, 0));
}

#[test]
fn tiles_in_memory_are_not_loaded_and_the_last_ones_stay() {
    let steps: Vec<Vec<u32>> = (0..8).map(|i| vec![i]).collect();
    let program = reading(&steps, 8);
    let resident: Vec<TileId> = [0, 5, 7].map(TileId).to_vec();
    let found = best(&program, 4 * TILE, &resident, &mut Unwatched).unwrap();
    check(&program, &found, 4 * TILE);
    assert_eq!(found.bytes_read(), 5 * TILE as u64);
    let dropped = found.actions().filter(|a| matches!(a, Action::Drop(_))).count();
    assert_eq!(dropped, 8 - 4, "as many stay as there is room for");
}

#[test]
fn too_small_a_capacity_is_refused() {
    let program = reading(&[vec![0, 1, 2]], 3);
    let refused = best(&program, 2 * TILE, &[], &mut Unwatched);
    assert!(matches!(refused, Err(Error::Budget { needed, .. }) if needed == 3 * TILE as u64));
}
