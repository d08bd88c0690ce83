//! How long a schedule will take.
//!
//! The run is played through on a clock: loads and stores pass one after the other at the device's
//! rates, with what each contiguous piece of a file takes beside its bytes; steps run on the earliest
//! free thread when their tiles are there, and a load waits until memory for it is free. It is a
//! model, and exact in bytes only.

use super::speeds::Speeds;
use crate::program::{Program, StepView, TileId};
use crate::schedule::{Action, STEPS_BETWEEN_LOOKS, Schedule};
use crate::watch::Watch;
use outcrop_store::Result;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Predicted seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// In all.
    pub seconds: f64,
    /// In which the disk is busy.
    pub io: f64,
    /// In which steps would run if all tiles were there, on all threads, checksums included.
    pub compute: f64,
}

#[derive(Clone, Copy, PartialEq)]
struct Time(f64);

impl Eq for Time {}
impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Plays a schedule through, with `room` bytes for tiles.
///
/// # Errors
/// [`outcrop_store::Error::Interrupted`] where the watch says so.
pub fn predict(
    program: &Program,
    schedule: &Schedule,
    speeds: Speeds,
    room: usize,
    watch: &mut dyn Watch,
) -> Result<Prediction> {
    let mut run = Played {
        ready: vec![0.0; program.tiles()],
        idle: vec![0.0; program.tiles()],
        returns: BinaryHeap::new(),
        used: schedule.adopted.iter().map(|&t| program.frame(t)).sum(),
        room,
        allocated: 0.0,
        reading: 0.0,
        writing: 0.0,
        requests: 0.0,
        end: 0.0,
    };
    let mut workers: BinaryHeap<Reverse<Time>> =
        (0..speeds.threads.max(1)).map(|_| Reverse(Time(0.0))).collect();
    let moved = (schedule.bytes_read() + schedule.bytes_written()) as f64;
    let seconds_of = |step: &StepView<'_>| step.work / program.kernels()[step.kernel].rate.max(1.0);
    let alone: f64 = (0..program.len()).map(|s| seconds_of(&program.step_at(s))).sum();
    // What moving takes of the processors, steps wait for.
    let stretch = 1.0 + moved / speeds.checksum / alone.max(1e-9);
    let mut next_step = 0_usize;
    for action in schedule.actions() {
        match action {
            Action::Step => {
                if next_step.is_multiple_of(STEPS_BETWEEN_LOOKS) {
                    watch.look()?;
                }
                let step = program.step_at(next_step);
                next_step += 1;
                let seconds = seconds_of(&step) * stretch;
                let Reverse(Time(mut start)) = workers.pop().expect("never empty");
                for operand in step.operands {
                    let i = operand.tile().0 as usize;
                    start = start.max(if operand.writes() {
                        run.idle[i].max(run.ready[i])
                    } else {
                        run.ready[i]
                    });
                }
                let end = start + seconds;
                workers.push(Reverse(Time(end)));
                for operand in step.operands {
                    run.use_until(operand.tile(), end, operand.writes());
                }
            }
            Action::Create(tile) => {
                let at = run.allocate(program.frame(tile));
                run.use_until(tile, at, true);
            }
            Action::Load(tile) => run.load(program, tile, tile, speeds),
            Action::LoadInitial(tile) => {
                let from = program.initial_of(tile).expect("scheduled so");
                run.load(program, tile, from, speeds);
            }
            Action::Store(tile) => {
                let start = run.writing.max(run.ready[tile.0 as usize]);
                let requests = program.pieces(tile) as f64 * speeds.request;
                run.requests += requests;
                run.writing = start + program.cost(tile).store as f64 / speeds.write + requests;
                run.use_until(tile, run.writing, false);
            }
            Action::Drop(tile) | Action::Discard(tile) => {
                run.returns.push(Reverse((Time(run.idle[tile.0 as usize]), program.frame(tile))));
            }
        }
    }
    let (read, written) = (schedule.bytes_read() as f64, schedule.bytes_written() as f64);
    let bytes = (read / speeds.read).max(written / speeds.write).max((read + written) / speeds.both);
    let io = bytes + run.requests;
    let compute = alone * stretch / speeds.threads.max(1) as f64;
    Ok(Prediction { seconds: run.end.max(io), io, compute })
}

struct Played {
    /// When a tile's content is there.
    ready: Vec<f64>,
    /// When its last use so far is over.
    idle: Vec<f64>,
    /// Memory that comes back: when, and how much.
    returns: BinaryHeap<Reverse<(Time, usize)>>,
    used: usize,
    room: usize,
    /// Memory is given out in the schedule's order.
    allocated: f64,
    reading: f64,
    writing: f64,
    /// Seconds for all requests.
    requests: f64,
    end: f64,
}

impl Played {
    fn allocate(&mut self, bytes: usize) -> f64 {
        while self.used + bytes > self.room {
            let Some(Reverse((Time(at), returned))) = self.returns.pop() else { break };
            self.used -= returned;
            self.allocated = self.allocated.max(at);
        }
        self.used += bytes;
        self.allocated
    }

    fn load(&mut self, program: &Program, tile: TileId, from: TileId, speeds: Speeds) {
        let start = self.reading.max(self.allocate(program.frame(tile)));
        let requests = program.pieces(from) as f64 * speeds.request;
        self.requests += requests;
        self.reading = start + program.cost(from).load as f64 / speeds.read + requests;
        self.use_until(tile, self.reading, true);
    }

    fn use_until(&mut self, tile: TileId, end: f64, writes: bool) {
        let i = tile.0 as usize;
        if writes {
            self.ready[i] = end;
        }
        self.idle[i] = self.idle[i].max(end);
        self.end = self.end.max(end);
    }
}
