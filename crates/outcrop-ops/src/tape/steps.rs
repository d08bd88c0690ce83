//! The steps of a program that tapes do.

use super::Tape;
use super::bound::{self, Noted};
use outcrop_engine::execute::Tile;
use outcrop_engine::program::Operand;
use outcrop_store::io::Cancel;
use outcrop_store::{Error, Result};
use smallvec::SmallVec;

/// The steps of a program, as far as tapes do them.
#[derive(Debug, Default)]
pub struct Steps {
    tapes: Vec<Tape>,
    /// Of each step, its tape and where it is in the other two, if it has a tape.
    steps: Vec<Option<Step>>,
    /// Of each step, the range of each cut line.
    ranges: Vec<(u64, u64)>,
    /// Of each step, which of its operands the tiles of the tape are.
    places: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    tape: u32,
    ranges: u32,
    places: u32,
}

impl Steps {
    /// Adds a tape, and gives its number.
    pub fn tape(&mut self, tape: Tape) -> usize {
        self.tapes.push(tape);
        self.tapes.len() - 1
    }

    /// How many ranges and places a step of a tape has.
    ///
    /// # Errors
    /// Where there is no such tape.
    pub fn counts(&self, tape: usize) -> Result<(usize, usize)> {
        let known =
            self.tapes.get(tape).ok_or_else(|| Error::invalid("a step of a tape that is not declared"))?;
        Ok((known.lines.cut.len(), known.tiles()))
    }

    /// Appends a step that no tape does.
    pub fn push_other(&mut self) {
        self.steps.push(None);
    }

    /// Appends a step: its tape, the range of each cut line, and which of its operands the tape's tiles are.
    ///
    /// # Errors
    /// Where they do not fit the tape.
    pub fn push(
        &mut self,
        tape: usize,
        ranges: &[(u64, u64)],
        places: &[u16],
        operands: &[Operand],
    ) -> Result<()> {
        if self.counts(tape)? != (ranges.len(), places.len()) {
            return Err(Error::invalid("a step that does not fit its tape"));
        }
        let Tape { lines, written, .. } = &self.tapes[tape];
        let is_inside =
            |(&line, &(low, high)): (&usize, &(u64, u64))| low <= high && high <= lines.extents[line];
        let is_there = |(&place, &writes): (&u16, &bool)| {
            operands.get(usize::from(place)).is_some_and(|operand| operand.writes() || !writes)
        };
        if !lines.cut.iter().zip(ranges).all(is_inside) || !places.iter().zip(written).all(is_there) {
            return Err(Error::invalid(
                "a step that reaches beyond its arrays, or writes what it may only read",
            ));
        }
        let step =
            Step { tape: tape as u32, ranges: self.ranges.len() as u32, places: self.places.len() as u32 };
        self.ranges.extend_from_slice(ranges);
        self.places.extend_from_slice(places);
        self.steps.push(Some(step));
        Ok(())
    }

    /// The tape of a step, if one does it.
    pub fn tape_of(&self, step: usize) -> Option<&Tape> {
        let step = (*self.steps.get(step)?)?;
        Some(&self.tapes[step.tape as usize])
    }

    /// Does a step that a tape does. Where floating-point errors came up, it says in which of its instructions.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; an error where tiles or workspace do not hold what the tape needs.
    ///
    /// # Panics
    /// Where no tape does the step.
    ///
    /// # Safety
    /// As [`outcrop_engine::execute::Kernels::run`], of the program whose steps these are.
    pub unsafe fn run(
        &self,
        step: usize,
        tiles: &[Tile<'_>],
        workspace: &mut [u8],
        cancel: &Cancel,
    ) -> Result<Noted> {
        let step = self.steps[step].expect("a step that a tape does");
        let tape = &self.tapes[step.tape as usize];
        let ranges = &self.ranges[step.ranges as usize..][..tape.lines.cut.len()];
        let places = &self.places[step.places as usize..][..tape.tiles()];
        let own: SmallVec<[&Tile<'_>; 8]> = places.iter().map(|&place| &tiles[usize::from(place)]).collect();
        // SAFETY: as the caller vouches; that it writes what the tape writes was checked when it was added.
        unsafe { bound::run(tape, ranges, &own, workspace, cancel) }
    }
}
