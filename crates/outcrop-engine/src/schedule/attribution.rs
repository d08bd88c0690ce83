//! For which kernels' steps a schedule moves what.
//!
//! What is loaded is for the first step that uses it, and what is stored comes from the last one that has changed it.

use super::{Action, Schedule, Traffic};
use crate::program::{Access, ArrayId, Program, TileId};
use crate::report;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A kernel and an array, by their numbers.
pub(crate) type Pair = (u16, ArrayId);

impl Schedule {
    /// What is moved for the steps of each kernel, array by array, those of the same names added up; and how long they
    /// have `waited` for it, where it has run.
    pub fn traffic_by_kernel(
        &self,
        program: &Program,
        waited: &BTreeMap<Pair, Duration>,
    ) -> Vec<report::Traffic> {
        let mut moved = self.by_kernel(program);
        waited.keys().for_each(|&pair| {
            moved.entry(pair).or_default();
        });
        let mut found = Vec::new();
        for ((kernel, array), bytes) in moved {
            let one = report::Traffic {
                kernel: Arc::clone(&program.kernels()[kernel].name),
                array: program.array_at(array).name.as_str().into(),
                bytes_read: bytes.read,
                bytes_written: bytes.written,
                waited: waited.get(&(kernel, array)).copied().unwrap_or_default(),
            };
            one.add_to(&mut found);
        }
        found
    }

    fn by_kernel(&self, program: &Program) -> BTreeMap<Pair, Traffic> {
        let mut found: BTreeMap<Pair, Traffic> = BTreeMap::new();
        // By tile: what was loaded since a step has used it, and of which array; the kernel that has changed it.
        let mut loaded: BTreeMap<TileId, (ArrayId, u64)> = BTreeMap::new();
        let mut writers: Vec<Option<u16>> = vec![None; program.tiles()];
        let mut steps = 0..;
        for action in self.actions() {
            match action {
                Action::Step => {
                    let step = program.step_at(steps.next().unwrap_or(0));
                    for operand in step.operands {
                        let tile = operand.tile();
                        if operand.access() != Access::Read {
                            writers[tile.0 as usize] = Some(step.kernel);
                        }
                        if let Some((array, bytes)) = loaded.remove(&tile) {
                            found.entry((step.kernel, array)).or_default().read += bytes;
                        }
                    }
                }
                Action::Load(tile) => {
                    loaded.insert(tile, (program.array_of(tile), program.cost(tile).load));
                }
                Action::LoadInitial(tile) => {
                    let from = program.initial_of(tile).unwrap_or(tile);
                    loaded.insert(tile, (program.array_of(from), program.cost(from).load));
                }
                Action::Store(tile) => {
                    if let Some(kernel) = writers[tile.0 as usize] {
                        let moved = found.entry((kernel, program.array_of(tile))).or_default();
                        moved.written += program.cost(tile).store;
                    }
                }
                Action::Create(_) | Action::Drop(_) | Action::Discard(_) => {}
            }
        }
        found
    }
}
