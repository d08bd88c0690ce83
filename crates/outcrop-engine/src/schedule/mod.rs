//! A program with every load, store and drop placed, inside a capacity of bytes.
//!
//! The future of a program is known, so that a tile leaves memory by its next use, as a register
//! allocator would have it, and not by its last. Of two tiles the one whose next use is further away
//! for what its return costs goes first: a clean tile costs a load, a changed one a store and a load, and a
//! large one all of it, however little memory is needed. With clean tiles of one size this is Belady's rule, which is optimal. A tile whose
//! content is not needed again is discarded, and never written if it is a temporary. An output is
//! stored as soon as its last step has run; from then on it is as clean as an input.
//!
//! What a schedule moves is exact: a run performs its events, no others.

mod attribution;
mod evict;
mod scratch;
#[cfg(test)]
mod tests;

pub use evict::Policy;
pub(crate) use scratch::Slots;

use crate::program::{Access, ArrayId, Program, Role, TileId};
use crate::watch::Watch;
use evict::Residents;
use outcrop_store::{Error, Result};

/// What happens at one place of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The program's next step runs.
    Step,
    /// The tile gets a frame, whose content is unspecified.
    Create(TileId),
    /// The tile gets a frame and is loaded from where it is stored.
    Load(TileId),
    /// The tile gets a frame and is loaded from its array's initial array.
    LoadInitial(TileId),
    /// The tile is stored, to its array's store or to scratch.
    Store(TileId),
    /// The tile's frame is given back; what it held is stored somewhere.
    Drop(TileId),
    /// The tile's frame is given back; what it held is not needed again.
    Discard(TileId),
}

/// An [`Action`] in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event(u32);

impl Event {
    fn new(action: Action) -> Event {
        let (kind, tile) = match action {
            Action::Step => (0, TileId(0)),
            Action::Create(t) => (1, t),
            Action::Load(t) => (2, t),
            Action::LoadInitial(t) => (3, t),
            Action::Store(t) => (4, t),
            Action::Drop(t) => (5, t),
            Action::Discard(t) => (6, t),
        };
        Event(tile.0 << 3 | kind)
    }

    fn action(self) -> Action {
        let tile = TileId(self.0 >> 3);
        match self.0 & 7 {
            0 => Action::Step,
            1 => Action::Create(tile),
            2 => Action::Load(tile),
            3 => Action::LoadInitial(tile),
            4 => Action::Store(tile),
            5 => Action::Drop(tile),
            _ => Action::Discard(tile),
        }
    }
}

/// Bytes moved of one array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read from its store, or from scratch.
    pub read: u64,
    /// Written to its store, or to scratch.
    pub written: u64,
}

/// A program's schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    events: Vec<Event>,
    /// Tiles that are in memory at the start.
    pub adopted: Vec<TileId>,
    /// By array. What is written of a temporary goes to scratch.
    pub traffic: Vec<Traffic>,
    /// The most bytes of tiles at once.
    pub peak: usize,
    /// The most bytes of scratch space at once.
    pub scratch: u64,
    /// The policy that was best.
    pub policy: Policy,
    /// Whether changed tiles had to leave that were still to be used.
    spills: bool,
}

impl Schedule {
    /// What happens, in order.
    pub fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.events.iter().map(|e| e.action())
    }

    /// The action at a place.
    pub fn action(&self, i: usize) -> Option<Action> {
        self.events.get(i).map(|e| e.action())
    }

    /// How many actions there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Bytes read of all arrays.
    pub fn bytes_read(&self) -> u64 {
        self.traffic.iter().map(|t| t.read).sum()
    }

    /// Bytes written of all arrays, commits not counted.
    pub fn bytes_written(&self) -> u64 {
        self.traffic.iter().map(|t| t.written).sum()
    }

    /// Bytes of memory that the schedule takes.
    pub fn bytes(&self) -> usize {
        self.events.capacity() * size_of::<Event>()
    }
}

/// No later use.
const NEVER: u32 = (1 << 30) - 1;
/// The next use overwrites the tile: what it holds until then is not needed.
const OVERWRITTEN: u32 = 1 << 30;
/// The tile is written again.
const WRITTEN_LATER: u32 = 1 << 31;

/// For every operand of every step, when its tile is used next; and when each tile is used first.
struct Uses {
    after: Vec<u32>,
    first: Vec<u32>,
}

impl Uses {
    fn new(program: &Program) -> Uses {
        let mut after = vec![0; program.operands().len()];
        let mut first = vec![NEVER; program.tiles()];
        for s in (0..program.len()).rev() {
            let at = program.first_operand(s);
            for (i, operand) in program.step_at(s).operands.iter().enumerate() {
                let next = &mut first[operand.tile().0 as usize];
                after[at + i] = *next;
                let later = if operand.writes() { WRITTEN_LATER } else { *next & WRITTEN_LATER };
                let overwritten = if operand.access() == Access::Write { OVERWRITTEN } else { 0 };
                *next = s as u32 | overwritten | later;
            }
        }
        Uses { after, first }
    }
}

fn when(next: u32) -> u32 {
    next & NEVER
}

/// Whether the content of a tile with this next use is not needed any more.
fn is_dead(next: u32) -> bool {
    when(next) == NEVER || next & OVERWRITTEN != 0
}

const RESIDENT: u8 = 1;
const DIRTY: u8 = 2;
/// A step has written it: it does not hold what it held at first.
const WRITTEN: u8 = 4;

/// Places loads, stores and drops by one policy.
///
/// `resident` are tiles that are in memory at the start, as they are stored; they fit the capacity. They
/// count, and may be evicted like others.
///
/// # Errors
/// [`Error::Budget`] where the tiles of one step do not fit; it speaks of `capacity` as the budget;
/// [`Error::Interrupted`] where the watch says so.
pub fn schedule(
    program: &Program,
    capacity: usize,
    resident: &[TileId],
    policy: Policy,
    watch: &mut dyn Watch,
) -> Result<Schedule> {
    assert!(program.len() < NEVER as usize, "more steps than can be numbered");
    let uses = Uses::new(program);
    Placing::new(program, &uses, capacity, policy).run(resident, watch)
}

/// The best schedule of those by several policies, which differ in how dear a store is.
///
/// # Errors
/// As for [`schedule`].
pub fn best(
    program: &Program,
    capacity: usize,
    resident: &[TileId],
    watch: &mut dyn Watch,
) -> Result<Schedule> {
    assert!(program.len() < NEVER as usize, "more steps than can be numbered");
    let uses = Uses::new(program);
    let mut best: Option<Schedule> = None;
    for policy in Policy::CANDIDATES {
        let found = Placing::new(program, &uses, capacity, policy).run(resident, watch)?;
        let total = |s: &Schedule| s.bytes_read() + s.bytes_written();
        if best.as_ref().is_none_or(|b| total(&found) < total(b)) {
            best = Some(found);
        }
        // Without a changed tile that had to leave, or with a very long program, one is enough.
        if program.len() > LONG || best.as_ref().is_some_and(|b| !b.spills) {
            break;
        }
    }
    Ok(best.expect("there is a policy"))
}

/// How much larger than the memory a program's arrays may be for tiles to stay there for the next run: a small part of
/// them saves less reading than it takes to get the memory.
const MOST_OF_ALL: usize = 6;

/// Bytes of an action in a schedule.
pub(crate) const EVENT_BYTES: usize = size_of::<Event>();

/// How often, in steps, it is asked whether to go on: some tens of milliseconds.
pub(crate) const STEPS_BETWEEN_LOOKS: usize = 1 << 18;

/// Steps from which on only one policy is tried.
const LONG: usize = 200_000;

struct Placing<'a> {
    program: &'a Program,
    uses: &'a Uses,
    capacity: usize,
    policy: Policy,
    events: Vec<Event>,
    state: Vec<u8>,
    residents: Residents,
    used: usize,
    peak: usize,
    traffic: Vec<Traffic>,
    slots: Slots,
    clock: u32,
    spills: bool,
}

impl<'a> Placing<'a> {
    fn new(program: &'a Program, uses: &'a Uses, capacity: usize, policy: Policy) -> Placing<'a> {
        Placing {
            program,
            uses,
            capacity,
            policy,
            events: Vec::with_capacity(program.len() + program.len() / 4),
            state: vec![0; program.tiles()],
            residents: Residents::new(program, policy),
            used: 0,
            peak: 0,
            traffic: vec![Traffic::default(); program.arrays().len()],
            slots: Slots::default(),
            clock: 0,
            spills: false,
        }
    }

    fn run(mut self, resident: &[TileId], watch: &mut dyn Watch) -> Result<Schedule> {
        for &tile in resident {
            self.enter(tile);
            self.residents.insert(tile, false, self.uses.first[tile.0 as usize] & NEVER, self.clock);
        }
        assert!(self.used <= self.capacity, "more tiles in memory than there is room for");
        for s in 0..self.program.len() {
            if s.is_multiple_of(STEPS_BETWEEN_LOOKS) {
                watch.look()?;
            }
            self.step(s)?;
        }
        self.finish();
        let kept_events = self.keep_the_last();
        Ok(Schedule {
            events: kept_events,
            adopted: resident.to_vec(),
            traffic: self.traffic,
            peak: self.peak,
            scratch: self.slots.peak(),
            policy: self.policy,
            spills: self.spills,
        })
    }

    fn role(&self, tile: TileId) -> Role {
        self.program.array_at(self.program.array_of(tile)).role
    }

    fn is(&self, tile: TileId, flag: u8) -> bool {
        self.state[tile.0 as usize] & flag != 0
    }

    fn enter(&mut self, tile: TileId) {
        self.state[tile.0 as usize] |= RESIDENT;
        self.used += self.program.frame(tile);
        self.peak = self.peak.max(self.used);
    }

    fn emit(&mut self, action: Action) {
        self.events.push(Event::new(action));
    }

    fn account(&mut self, array: ArrayId) -> &mut Traffic {
        &mut self.traffic[array.0 as usize]
    }

    fn step(&mut self, s: usize) -> Result<()> {
        let program = self.program;
        let step = program.step_at(s);
        let at = program.first_operand(s);
        self.clock += 1;
        let absent = |o: &&crate::program::Operand| !self.is(o.tile(), RESIDENT);
        let needed: usize = step.operands.iter().filter(absent).map(|o| program.frame(o.tile())).sum();
        // The step's own tiles do not leave.
        for operand in step.operands {
            self.residents.remove(operand.tile());
        }
        while self.used + needed > self.capacity {
            let missing = self.used + needed - self.capacity;
            let victim = self.residents.victim(s as u32, missing).ok_or_else(|| Error::Budget {
                purpose: format!("the tiles of one step of {}", program.name),
                needed: step.operands.iter().map(|o| program.frame(o.tile()) as u64).sum(),
                budget: self.capacity as u64,
            })?;
            if self.is(victim, DIRTY) {
                self.spills = true;
                self.store(victim);
            }
            self.leave(victim, false);
        }
        for (i, operand) in step.operands.iter().enumerate() {
            let tile = operand.tile();
            if !self.is(tile, RESIDENT) {
                self.bring(tile, operand.access());
                self.enter(tile);
            }
            if operand.writes() {
                self.state[tile.0 as usize] |= DIRTY | WRITTEN;
            }
            let next = self.uses.after[at + i];
            self.residents.insert(tile, self.is(tile, DIRTY), when(next), self.clock);
        }
        self.emit(Action::Step);
        if !self.policy.knows_the_future() {
            return Ok(());
        }
        for (i, operand) in step.operands.iter().enumerate() {
            let (tile, next) = (operand.tile(), self.uses.after[at + i]);
            let role = self.role(tile);
            if role == Role::Output && self.is(tile, DIRTY) && next & WRITTEN_LATER == 0 {
                self.store(tile);
                self.residents.remove(tile);
                self.residents.insert(tile, false, when(next), self.clock);
            }
            if is_dead(next) {
                self.leave(tile, true);
            }
        }
        Ok(())
    }

    /// Gives a tile that is not in memory a frame with what a step is to find there.
    fn bring(&mut self, tile: TileId, access: Access) {
        let program = self.program;
        let array = program.array_of(tile);
        if access == Access::Write {
            self.emit(Action::Create(tile));
        } else if self.is(tile, WRITTEN) || program.array_at(array).initial.is_none() {
            assert!(
                self.is(tile, WRITTEN) || program.array_at(array).role == Role::Input,
                "{}: a tile is read that nothing has written",
                program.array_at(array).name
            );
            self.account(array).read += program.cost(tile).load;
            self.emit(Action::Load(tile));
        } else {
            let initial = program.initial_of(tile).expect("looked at above");
            self.account(program.array_of(initial)).read += program.cost(initial).load;
            self.emit(Action::LoadInitial(tile));
        }
    }

    fn store(&mut self, tile: TileId) {
        let program = self.program;
        self.account(program.array_of(tile)).written += program.cost(tile).store;
        if self.role(tile) == Role::Temporary {
            self.slots.take(tile, program.cost(tile).store);
        }
        self.state[tile.0 as usize] &= !DIRTY;
        self.emit(Action::Store(tile));
    }

    /// Takes a tile out of memory.
    fn leave(&mut self, tile: TileId, dead: bool) {
        self.residents.remove(tile);
        let discard = dead && (self.role(tile) == Role::Temporary || self.is(tile, DIRTY));
        self.state[tile.0 as usize] &= !(RESIDENT | DIRTY);
        self.used -= self.program.frame(tile);
        if discard {
            self.slots.give_back(tile, self.program.cost(tile).store);
        }
        self.emit(if discard { Action::Discard(tile) } else { Action::Drop(tile) });
    }

    /// Stores outputs that are still to be, and drops what is left.
    fn finish(&mut self) {
        let left: Vec<TileId> = self.residents.all().collect();
        for tile in left {
            let role = self.role(tile);
            if role == Role::Output && self.is(tile, DIRTY) {
                self.store(tile);
            }
            self.leave(tile, true);
        }
    }

    fn program_bytes(&self) -> usize {
        (0..self.program.tiles()).map(|t| self.program.frame(TileId(t as u32))).sum()
    }

    /// Of the tiles dropped last, as many as memory holds stay in it, for the next run.
    fn keep_the_last(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.events);
        events.shrink_to_fit();
        if !self.policy.knows_the_future() || self.program_bytes() > MOST_OF_ALL * self.capacity {
            return events;
        }
        let mut kept = vec![false; events.len()];
        let mut seen = vec![false; self.program.tiles()];
        // Bytes in memory after an event, and the most from there to the end with what is kept.
        let (mut used, mut most) = (0, 0);
        for (i, event) in events.iter().enumerate().rev() {
            most = most.max(used);
            let action = event.action();
            match action {
                Action::Drop(t) | Action::Discard(t) => {
                    let frame = self.program.frame(t);
                    let stored = match self.role(t) {
                        Role::Input => true,
                        Role::Output => self.is(t, WRITTEN),
                        Role::Temporary => false,
                    };
                    if stored && !seen[t.0 as usize] && most + frame <= self.capacity {
                        kept[i] = true;
                        most += frame;
                    }
                    seen[t.0 as usize] = true;
                    used += frame;
                }
                Action::Create(t) | Action::Load(t) | Action::LoadInitial(t) => used -= self.program.frame(t),
                Action::Step | Action::Store(_) => {}
            }
        }
        self.peak = self.peak.max(most);
        let mut kept = kept.into_iter();
        events.retain(|_| !kept.next().expect("one for each"));
        events.shrink_to_fit();
        events
    }
}
