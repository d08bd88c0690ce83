//! The steps of a program that a tape does: the tape is their kernel.
//!
//! A step's arguments are which part of each cut line is its own, and which of its operands the tape's tiles are: numbers
//! of 32 and of 16 bits, packed.

use super::Tape;
use super::bound;
use outcrop_engine::program::{Kernel, Operand, Running, Tile};
use outcrop_store::{Error, Result};
use smallvec::SmallVec;

/// Words of 16 bits in an argument.
const PACKED: usize = 4;

impl Tape {
    /// How many parts of lines and places a step has.
    pub fn counts(&self) -> (usize, usize) {
        (self.lines.cut.len(), self.tiles())
    }

    /// How many arguments a step has.
    pub fn arguments(&self) -> usize {
        let (cut, tiles) = self.counts();
        (2 * cut + tiles).div_ceil(PACKED)
    }

    /// The arguments of a step, added to others: which part of each cut line is its own, and which of its operands the
    /// tape's tiles are.
    ///
    /// # Errors
    /// Where they do not fit the tape.
    pub fn push_arguments(
        &self,
        arguments: &mut Vec<u64>,
        parts: &[u64],
        places: &[u16],
        operands: &[Operand],
    ) -> Result<()> {
        if self.counts() != (parts.len(), places.len()) {
            return Err(Error::invalid("a step that does not fit its tape"));
        }
        let is_inside = |(&(line, extent), &part): (&(usize, u64), &u64)| {
            let count = self.lines.extents[line].div_ceil(extent);
            // Of a line without indices, there is one part that has none.
            part < count.max(1) && part <= u64::from(u32::MAX)
        };
        let is_there = |(&place, &writes): (&u16, &bool)| {
            operands.get(usize::from(place)).is_some_and(|operand| operand.writes() || !writes)
        };
        if !self.lines.cut.iter().zip(parts).all(is_inside) || !places.iter().zip(&self.written).all(is_there)
        {
            return Err(Error::invalid(
                "a step that reaches beyond its arrays, or writes what it may only read",
            ));
        }
        let halves = parts.iter().flat_map(|&part| [part as u16, (part >> 16) as u16]);
        let words: SmallVec<[u16; 32]> = halves.chain(places.iter().copied()).collect();
        arguments.extend(
            words.chunks(PACKED).map(|some| some.iter().rev().fold(0, |all, &w| all << 16 | u64::from(w))),
        );
        Ok(())
    }
}

impl Kernel for Tape {
    // SAFETY: what the caller promises is what `bound::run` asks for; that the step writes what the tape writes, and stays
    // inside its arrays, was checked when its arguments were made.
    unsafe fn run(&self, step: Running<'_>) -> Result<()> {
        let (cut, count) = self.counts();
        let word = |i: usize| (step.arguments[i / PACKED] >> (16 * (i % PACKED))) as u16;
        let parts = (0..cut).map(|i| u64::from(word(2 * i)) | u64::from(word(2 * i + 1)) << 16);
        let own: SmallVec<[&Tile<'_>; 8]> =
            (0..count).map(|i| &step.tiles[usize::from(word(2 * cut + i))]).collect();
        // SAFETY: as above.
        let noted = unsafe { bound::run(self, parts, &own, step.workspace, step.cancel)? };
        noted
            .into_iter()
            .try_for_each(|(instruction, flags)| step.caller.floating_errors(self.name(instruction), flags.0))
    }
}
