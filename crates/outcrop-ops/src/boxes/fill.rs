//! An array from a function of its boxes.

use crate::boxes::access::canvas_on;
use crate::boxes::movement::{NONE, threads, units};
use outcrop_engine::Runtime;
use outcrop_engine::Watch;
use outcrop_engine::report::Report;
use outcrop_engine::stream::{self, Frames, Job, Loaders, Threads};
use outcrop_store::frame::{Frame, charged};
use outcrop_store::store::{Mover, Store};
use outcrop_store::{ArrayBox, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Computes a box, dense and row-major, in the frame's memory.
pub type Produce<'a> = dyn FnMut(&ArrayBox, &Arc<Frame>) -> Result<()> + Send + 'a;

/// Bytes of the boxes of a row-major or column-major array.
const PART: u64 = 8 << 20;

struct Fill<'a> {
    target: &'a dyn Store,
    boxes: Vec<ArrayBox>,
    produce: Mutex<&'a mut Produce<'a>>,
}

impl Job for Fill<'_> {
    fn operation(&self) -> &'static str {
        "fill"
    }
    fn pieces(&self) -> u64 {
        self.boxes.len() as u64
    }
    fn frames(&self, piece: u64) -> Vec<usize> {
        vec![crate::boxes::access::frame_bytes(self.target, &self.boxes[piece as usize])]
    }
    fn load_units(&self, _: u64) -> u64 {
        1
    }
    fn store_units(&self, _: u64) -> u64 {
        1
    }
    fn load(&self, _: &mut Mover, piece: u64, _: u64, frames: &Frames) -> Result<()> {
        let mut produce = self.produce.lock().unwrap_or_else(PoisonError::into_inner);
        produce(&self.boxes[piece as usize], &frames.get(0).expect("its store unit comes later"))
    }
    fn store(&self, mover: &mut Mover, piece: u64, _: u64, frames: &Frames) -> Result<()> {
        let frame = frames.get(0).expect("given back after this");
        // SAFETY: the box was computed, and its frame is not written any more.
        let canvas =
            unsafe { canvas_on(&frame, &self.boxes[piece as usize], self.target.info().dtype.size()) };
        self.target.store(mover, &canvas)
    }
    fn frees(&self, _: u64, _: u64) -> std::ops::Range<usize> {
        0..1
    }
    fn progress(&self, piece: u64) -> u64 {
        self.target.info().box_bytes(&self.boxes[piece as usize].shape)
    }
}

/// Calls `produce` for each box of the array in turn, on the calling thread, and stores behind it.
/// The boxes are the array's tiles. Half of the budget is left to what `produce` does.
///
/// # Errors
/// Those of `produce` and of the store; [`outcrop_store::Error::Budget`];
/// [`outcrop_store::Error::Interrupted`] where the watch says so.
pub fn fill(
    runtime: &Runtime,
    target: &Arc<dyn Store>,
    produce: &mut Produce<'_>,
    watch: &mut dyn Watch,
) -> Result<Report> {
    let _turn = runtime.turn(watch)?;
    runtime.resident().forget(target, &ArrayBox::whole(&target.info().shape));
    runtime.tune(&target.info().path, target.info().nbytes());
    let (boxes, threads) = division(runtime, target.as_ref());
    // SAFETY: only the lifetime of the trait object changes; the job ends before `produce` does.
    let produce: &mut Produce<'_> = unsafe { std::mem::transmute(produce) };
    let job = Fill { target: target.as_ref(), boxes, produce: Mutex::new(produce) };
    stream::run(runtime, &job, threads, watch)
}

/// The boxes in which an array is filled, and by whom.
fn division(runtime: &Runtime, target: &dyn Store) -> (Vec<ArrayBox>, Threads) {
    // Several at once must fit, and what the function makes beside them.
    let part = PART.min(runtime.limit() as u64 / 8);
    let boxes = units(target, &ArrayBox::whole(&target.info().shape), part);
    let mut threads = threads(runtime, NONE, Some(target.staging(true)));
    threads.loaders = Loaders::Caller;
    threads.room = (runtime.limit() / 2).saturating_sub(threads.staging());
    (boxes, threads)
}

/// What filling an array takes, whatever with.
pub struct Expected {
    /// Bytes written, with what makes the array visible.
    pub bytes_written: u64,
    /// Bytes of the budget without which it cannot be filled.
    pub least_bytes: usize,
    /// Bytes of the budget in use at once, at most.
    pub peak_bytes: usize,
    /// How long writing takes.
    pub seconds: f64,
}

/// What [`fill`] would take. The target may be a [`Sketch`](outcrop_store::store::sketch::Sketch).
///
/// # Errors
/// Those of the store.
pub fn plan(runtime: &Runtime, target: &Arc<dyn Store>) -> Result<Expected> {
    let (boxes, threads) = division(runtime, target.as_ref());
    let frames = |b: &ArrayBox| charged(crate::boxes::access::frame_bytes(target.as_ref(), b));
    let (all, largest) = boxes.iter().map(frames).fold((0usize, 0), |(sum, most), n| (sum + n, most.max(n)));
    let mut bytes_written = target.bytes_to_commit();
    for part in &boxes {
        bytes_written += target.bytes_to_store(part)?;
    }
    let device = runtime.device(&target.info().path, target.info().nbytes());
    Ok(Expected {
        bytes_written,
        least_bytes: threads.staging() + largest,
        peak_bytes: threads.staging() + all.min(threads.room.max(largest)),
        seconds: device.write(bytes_written / boxes.len().max(1) as u64, boxes.len() as u64, false),
    })
}
