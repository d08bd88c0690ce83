//! What is to be computed: steps on named tiles, in an order that is right if they run one after the
//! other.
//!
//! A program says nothing of loads, stores and memory: those are the [schedule](crate::schedule)'s.
//! It is compact, a few tens of bytes a step, because it stands in memory beside the tiles.

mod kernel_table;

pub use kernel_table::{Caller, Kernel, KernelTable, Kind, Running, Tile};
use outcrop_store::frame::fitted;
use outcrop_store::shape::TileGrid;
use outcrop_store::{ArrayBox, DType, Dims, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// An array of a program, by the order in which they were declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrayId(pub u16);

/// A tile of a program's array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileId(pub u32);

/// The most tiles of a program: an operand's number leaves two bits for the access.
const MOST_TILES: u64 = 1 << 28;

/// What becomes of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Stored already, and only read.
    Input,
    /// Stored when its last step has run.
    Output,
    /// Gone after its last use; on disk, in scratch, only where memory is short.
    Temporary,
}

/// Bytes that a tile's movement takes from or to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Loading it.
    pub load: u64,
    /// Storing it.
    pub store: u64,
}

/// How a step uses a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written whole, whatever it held.
    Write,
    /// It is read and written.
    Update,
}

/// An array of a program.
#[derive(Clone, Debug)]
pub struct Array {
    /// For people, such as `A`.
    pub name: String,
    /// What becomes of it.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// How it is cut; what tiles have beyond that, they share.
    pub grid: TileGrid,
    /// How many indices of each axis a tile has beyond its part of the grid, which the next one has, too.
    pub overlap: Dims,
    /// Where its first element lies in the store.
    pub origin: Vec<u64>,
    /// What its tiles hold until a step writes them: the tiles of this array, which has the same grid.
    pub initial: Option<ArrayId>,
    /// Bytes of the frame of a tile.
    pub frame: usize,
    /// Whether tiles stand in their frames as far behind a block's edge as in the file.
    pub skewed: bool,
    /// Staging memory with which a tile can be loaded and stored.
    pub staging: usize,
    /// In how many contiguous pieces of files a tile lies.
    pub pieces: u64,
    /// Bytes written when the array is committed, beside its tiles.
    pub commit: u64,
    tile: Dims,
    first: u32,
}

impl Array {
    /// The shape of the tile's frame: rows of a tile at the array's edge are as long as all others.
    pub fn tile_shape(&self) -> &[u64] {
        &self.tile
    }

    /// Its extents, with what the last tiles have beyond the grid.
    pub fn shape(&self) -> Dims {
        beyond(&self.grid.shape, &self.overlap)
    }

    /// The box of its tile with this number.
    fn tile_box(&self, index: u64) -> ArrayBox {
        let own = self.grid.tile_box(&self.grid.coords(index));
        ArrayBox { shape: beyond(&own.shape, &self.overlap), ..own }
    }
}

/// Extents with those of an overlap.
pub fn beyond(extents: &[u64], overlap: &[u64]) -> Dims {
    extents.iter().zip(overlap).map(|(n, more)| n + more).collect()
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// Of the first operand.
    operands: u32,
    /// Of the first argument.
    arguments: u32,
    kernel: u16,
    count: u16,
    work: f32,
}

/// Bytes of memory that a step takes, its operands and arguments not counted.
pub const STEP_BYTES: usize = size_of::<Step>();

/// Bytes of memory that an operand of a step takes.
pub const OPERAND_BYTES: usize = size_of::<Operand>();

/// Bytes of memory that an argument of a step takes.
pub const ARGUMENT_BYTES: usize = size_of::<u64>();

/// An operand of a step: a tile and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand(u32);

impl Operand {
    /// The tile is read.
    pub fn read(tile: TileId) -> Operand {
        Operand(tile.0 << 2)
    }

    /// The tile is written whole.
    pub fn write(tile: TileId) -> Operand {
        Operand(tile.0 << 2 | 1)
    }

    /// The tile is read and written.
    pub fn update(tile: TileId) -> Operand {
        Operand(tile.0 << 2 | 2)
    }

    /// From a tile's number times four, plus 1 where it is written whole, and 2 where it is read and written.
    pub fn from_code(code: u32) -> Operand {
        assert!(code & 3 != 3);
        Operand(code)
    }

    /// The tile.
    pub fn tile(self) -> TileId {
        TileId(self.0 >> 2)
    }

    /// How it is used.
    pub fn access(self) -> Access {
        match self.0 & 3 {
            0 => Access::Read,
            1 => Access::Write,
            _ => Access::Update,
        }
    }

    /// Whether the step changes the tile.
    pub fn writes(self) -> bool {
        self.0 & 3 != 0
    }
}

/// A step, looked at.
#[derive(Clone, Copy, Debug)]
pub struct StepView<'a> {
    /// Its kind, by the order in which they were declared.
    pub kernel: u16,
    /// Its operands. A tile occurs once.
    pub operands: &'a [Operand],
    /// Numbers of its own, for its kernel.
    pub arguments: &'a [u64],
    /// Arithmetic operations.
    pub work: f64,
}

/// Steps on named tiles.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// For people, such as `cholesky`.
    pub name: &'static str,
    /// How it was made, for people, such as `C in blocks of 4 x 6 tiles`.
    pub remark: String,
    arrays: Vec<Array>,
    kernels: KernelTable,
    tile_array: Vec<u16>,
    /// In units of 4096 bytes.
    load: Vec<u32>,
    store: Vec<u32>,
    steps: Vec<Step>,
    operands: Vec<Operand>,
    arguments: Vec<u64>,
    /// Bytes of memory that each thread's kernels need beside the tiles.
    pub workspace: usize,
    /// Bytes of memory that each thread's kernels take by themselves.
    pub beside: usize,
    /// Whether loading its inputs calls functions of the user's, which may load other arrays.
    pub calls_back: bool,
    /// Which part of the budget a load may have for staging memory, so that it takes more of a larger one; 0 where that
    /// does not depend on the budget.
    pub staging_part: usize,
    /// A lower bound of the bytes read, with its source, where one is known.
    pub lower_bound: Option<(f64, &'static str)>,
}

/// What an array is declared with.
pub struct Declaration<'a> {
    /// For people.
    pub name: &'a str,
    /// What becomes of it.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// How it is cut.
    pub grid: TileGrid,
    /// How many indices of each axis tiles have beyond that, of an input; empty for none.
    pub overlap: Dims,
    /// Where its first element lies in the store; empty for all zeros.
    pub origin: Vec<u64>,
    /// What its tiles hold at first.
    pub initial: Option<ArrayId>,
    /// Bytes of the frame of a tile; at least those of its elements.
    pub frame: usize,
    /// Whether tiles stand in their frames as far behind a block's edge as in the file, where they are loaded
    /// straight into them. There is room for that.
    pub skewed: bool,
    /// Staging memory of a movement.
    pub staging: usize,
    /// In how many contiguous pieces of files a tile lies.
    pub pieces: u64,
    /// Bytes of the commit.
    pub commit: u64,
}

impl Program {
    /// A program without steps.
    pub fn new(name: &'static str) -> Program {
        Program { name, ..Program::default() }
    }

    /// Declares an array; `cost` tells what moving a box of it takes.
    ///
    /// # Errors
    /// Those of `cost`; [`outcrop_store::Error::Invalid`] where there are too many tiles.
    pub fn array(
        &mut self,
        what: Declaration<'_>,
        mut cost: impl FnMut(&ArrayBox) -> Result<Cost>,
    ) -> Result<ArrayId> {
        let first = self.tile_array.len() as u64;
        let tiles = what.grid.tiles();
        if first + tiles > MOST_TILES {
            return Err(outcrop_store::Error::invalid(format!(
                "{}: {} tiles are more than a program can name; choose larger ones",
                what.name,
                first + tiles
            )));
        }
        let id = self.arrays.len() as u16;
        let overlap =
            if what.overlap.is_empty() { Dims::from_elem(0, what.grid.shape.len()) } else { what.overlap };
        let tile = beyond(&what.grid.tile, &overlap);
        let bytes = tile.iter().product::<u64>() as usize * what.dtype.size();
        let origin = if what.origin.is_empty() { vec![0; what.grid.shape.len()] } else { what.origin };
        let initial_frame = what.initial.map_or(0, |id| self.array_at(id).frame);
        let array = Array {
            name: what.name.into(),
            role: what.role,
            dtype: what.dtype,
            origin,
            initial: what.initial,
            // What its tiles hold at first is loaded straight into their frames.
            frame: fitted(what.frame.max(bytes)).max(initial_frame),
            skewed: what.skewed,
            staging: what.staging,
            pieces: what.pieces,
            commit: what.commit,
            grid: what.grid,
            overlap,
            tile,
            first: first as u32,
        };
        for i in 0..tiles {
            let mut region = array.tile_box(i);
            region.start.iter_mut().zip(&array.origin).for_each(|(s, o)| *s += o);
            let cost = cost(&region)?;
            self.tile_array.push(id);
            self.load.push((cost.load / 4096) as u32);
            self.store.push((cost.store / 4096) as u32);
        }
        self.arrays.push(array);
        Ok(ArrayId(id))
    }

    /// Declares a kind of step, by what it does.
    pub fn kernel(&mut self, name: &str, rate: f64, kernel: Arc<dyn Kernel>) -> u16 {
        self.kernels.push(Kind { name: name.into(), rate, kernel })
    }

    /// Makes room for steps to come, with so many operands and arguments in all.
    pub fn reserve(&mut self, steps: usize, operands: usize, arguments: usize) {
        self.steps.reserve_exact(steps);
        self.operands.reserve_exact(operands);
        self.arguments.reserve_exact(arguments);
    }

    /// Gives back the room that no steps have come to.
    pub fn shrink(&mut self) {
        self.steps.shrink_to_fit();
        self.operands.shrink_to_fit();
        self.arguments.shrink_to_fit();
    }

    /// Adds a step of `work` arithmetic operations. A tile occurs once among its operands. What the `arguments` say is
    /// its kernel's business.
    pub fn step(&mut self, kernel: u16, operands: &[Operand], arguments: &[u64], work: f64) {
        debug_assert_eq!(operands.iter().map(|o| o.tile()).collect::<HashSet<_>>().len(), operands.len());
        self.steps.push(Step {
            operands: self.operands.len() as u32,
            arguments: self.arguments.len() as u32,
            kernel,
            count: operands.len() as u16,
            work: work as f32,
        });
        self.operands.extend_from_slice(operands);
        self.arguments.extend_from_slice(arguments);
    }

    /// The tile of an array at these coordinates.
    pub fn tile(&self, array: ArrayId, coords: &[u64]) -> TileId {
        let array = &self.arrays[array.0 as usize];
        TileId(array.first + array.grid.linear_index(coords) as u32)
    }

    /// The tile of a matrix in this row and column of tiles.
    pub fn at(&self, array: ArrayId, row: u64, col: u64) -> TileId {
        self.tile(array, &[row, col])
    }

    /// The arrays.
    pub fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    /// An array.
    pub fn array_at(&self, id: ArrayId) -> &Array {
        &self.arrays[id.0 as usize]
    }

    /// The kinds of steps.
    pub fn kernels(&self) -> &KernelTable {
        &self.kernels
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// How many tiles there are.
    pub fn tiles(&self) -> usize {
        self.tile_array.len()
    }

    /// A step.
    pub fn step_at(&self, i: usize) -> StepView<'_> {
        let step = &self.steps[i];
        let first = step.operands as usize;
        let operands = &self.operands[first..first + step.count as usize];
        let end = self.steps.get(i + 1).map_or(self.arguments.len(), |next| next.arguments as usize);
        let arguments = &self.arguments[step.arguments as usize..end];
        StepView { kernel: step.kernel, operands, arguments, work: step.work as f64 }
    }

    /// Where the operands of a step begin among those of all steps.
    pub(crate) fn first_operand(&self, step: usize) -> usize {
        self.steps[step].operands as usize
    }

    /// The operands of all steps, one step's after the other's.
    pub(crate) fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// The array that a tile belongs to.
    pub fn array_of(&self, tile: TileId) -> ArrayId {
        ArrayId(self.tile_array[tile.0 as usize])
    }

    /// The tile of the array's initial array at the same coordinates.
    pub fn initial_of(&self, tile: TileId) -> Option<TileId> {
        let array = self.array_at(self.array_of(tile));
        let initial = self.array_at(array.initial?);
        Some(TileId(initial.first + (tile.0 - array.first)))
    }

    /// The box of a tile in its array, from 0 on.
    pub fn region(&self, tile: TileId) -> ArrayBox {
        let array = self.array_at(self.array_of(tile));
        array.tile_box(u64::from(tile.0 - array.first))
    }

    /// The box of a tile in the store.
    pub fn stored_region(&self, tile: TileId) -> ArrayBox {
        let mut region = self.region(tile);
        let array = self.array_at(self.array_of(tile));
        region.start.iter_mut().zip(&array.origin).for_each(|(s, o)| *s += o);
        region
    }

    /// The tile of an array, by position, that is a box of its store.
    pub(crate) fn tile_of_box(&self, array: usize, region: &ArrayBox) -> Option<TileId> {
        let array = &self.arrays[array];
        if array.overlap.iter().any(|&n| n > 0) {
            return None;
        }
        let mut inside = region.clone();
        for (start, origin) in inside.start.iter_mut().zip(&array.origin) {
            *start = start.checked_sub(*origin)?;
        }
        inside.check_inside(&array.grid.shape).ok()?;
        let coords = array.grid.tiles_of(&inside).next()?;
        let found = array.grid.tile_box(&coords) == inside;
        found.then(|| TileId(array.first + array.grid.linear_index(&coords) as u32))
    }

    /// Bytes of a tile's frame.
    pub fn frame(&self, tile: TileId) -> usize {
        self.array_at(self.array_of(tile)).frame
    }

    /// In how many contiguous pieces of files a tile lies, roughly.
    pub fn pieces(&self, tile: TileId) -> u64 {
        self.array_at(self.array_of(tile)).pieces
    }

    /// What moving a tile takes.
    pub fn cost(&self, tile: TileId) -> Cost {
        let i = tile.0 as usize;
        Cost { load: u64::from(self.load[i]) * 4096, store: u64::from(self.store[i]) * 4096 }
    }

    /// Arithmetic operations of all steps.
    pub fn work(&self) -> f64 {
        self.steps.iter().map(|s| f64::from(s.work)).sum()
    }

    /// Bytes of memory that the program takes.
    pub fn bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
            + self.operands.capacity() * size_of::<Operand>()
            + self.arguments.capacity() * ARGUMENT_BYTES
            + self.tile_array.capacity() * 10
    }

    /// The most bytes that the tiles of one step have, and a name for that step.
    pub fn largest_step(&self) -> usize {
        let bytes = |s: usize| self.step_at(s).operands.iter().map(|o| self.frame(o.tile())).sum();
        (0..self.len()).map(bytes).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_reach_into_those_that_follow() {
        let mut program = Program::new("overlapping");
        let declaration = Declaration {
            name: "A",
            role: Role::Input,
            dtype: DType::F64,
            grid: TileGrid::new(&[10, 5], &[4, 5]).unwrap(),
            overlap: Dims::from_slice(&[2, 1]),
            origin: vec![3, 0],
            initial: None,
            frame: 0,
            skewed: false,
            staging: 0,
            pieces: 1,
            commit: 0,
        };
        let mut boxes = Vec::new();
        let cost = |region: &ArrayBox| {
            boxes.push(region.clone());
            Ok(Cost { load: 4096, store: 0 })
        };
        let id = program.array(declaration, cost).unwrap();
        let expected = [([3, 0], [6, 6]), ([7, 0], [6, 6]), ([11, 0], [4, 6])];
        assert_eq!(boxes, expected.map(|(start, shape)| ArrayBox::new(start, shape)));
        let (array, last) = (program.array_at(id), program.tile(id, &[2, 0]));
        assert_eq!((array.tile_shape(), array.shape().as_slice()), (&[6, 6][..], &[12, 6][..]));
        assert!(array.frame >= 6 * 6 * 8);
        assert_eq!(program.stored_region(last), boxes[2]);
        // What is resident does not reach further.
        assert_eq!(program.tile_of_box(0, &boxes[0]), None);
    }
}
