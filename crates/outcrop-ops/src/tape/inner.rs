//! Inner loops of elementwise functions over arrays of several axes.

use super::Inner;
use super::view::{PerAxis, View};
use outcrop_store::{Error, Result};
use smallvec::{SmallVec, smallvec};
use std::ffi::{c_char, c_void};

/// An inner loop of a ufunc: the addresses of operands and results, how many elements, the strides in bytes, and what
/// the ufunc has to say to it.
pub type Function =
    unsafe extern "C" fn(args: *mut *mut c_char, count: *mut isize, steps: *mut isize, data: *mut c_void);

/// Operands and result of an inner loop, at most.
pub const MOST_OPERANDS: usize = 4;

/// A number for each operand and the result.
type PerOperand<T> = [T; MOST_OPERANDS];

/// An axis, or several that are walked as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    extent: usize,
    steps: PerOperand<isize>,
}

/// Calls an inner loop for all elements of the last of these, the result, to whose shape the operands broadcast.
///
/// Axes are ordered, turned and joined as NumPy's iterator does it, so that the loop is called for the same runs of
/// elements with the same strides: which of its instructions a processor takes depends on these.
///
/// # Errors
/// Where the operands do not broadcast.
///
/// # Safety
/// The function takes so many operands, of the types that these have; every element is valid, for writes in the
/// result, which is one of the operands or shares no memory with them.
pub(super) unsafe fn run(inner: &Inner, views: &[(&View, usize)]) -> Result<()> {
    let (result, _) = views[views.len() - 1];
    if result.shape.contains(&0) {
        return Ok(());
    }
    let mut args: PerOperand<*mut c_char> = [std::ptr::null_mut(); MOST_OPERANDS];
    let mut axes = axes_of(views)?;
    for (arg, (view, _)) in args.iter_mut().zip(views) {
        *arg = view.start.cast();
    }
    turn(&mut axes, &mut args);
    sort(&mut axes, views.len());
    join(&mut axes);
    let along = axes.first().copied().unwrap_or_else(|| single(views));
    let outer = axes.get(1..).unwrap_or_default();
    let mut at: PerAxis<usize> = smallvec![0; outer.len()];
    loop {
        let (mut own, mut count, mut steps) = (args, along.extent as isize, along.steps);
        // SAFETY: elements of the views, as the caller vouches; the loop may change what it is given here.
        unsafe { (inner.function)(own.as_mut_ptr(), &raw mut count, steps.as_mut_ptr(), inner.data) };
        if !advance(outer, &mut at, &mut args) {
            return Ok(());
        }
    }
}

/// Calls an inner loop of two operands and a result for all elements of `operand`, with what `result` has so far as the
/// other operand: along axes that are reduced over, the result has strides of 0, and otherwise the operand's shape.
///
/// Where the result `has_first`, it is the first elements along these axes, which are left out. Runs of elements are
/// those of NumPy's iterator, as for [`run`]; axes of an operand are not walked backwards, which has a different first
/// element.
///
/// # Safety
/// As for [`run`]; the result shares no memory with the operand.
pub(super) unsafe fn reduce(
    inner: &Inner,
    operand: (&View, usize),
    result: (&View, usize),
    has_first: bool,
) -> Result<()> {
    let views = [result, operand, result];
    let mut axes = axes_of(&views)?;
    sort(&mut axes, views.len());
    join(&mut axes);
    let (result, operand) = (result.0.start.cast(), operand.0.start.cast());
    let mut args: PerOperand<*mut c_char> = [result, operand, result, std::ptr::null_mut()];
    let along = axes.first().copied().unwrap_or_else(|| single(&views));
    let is_reduced = |axis: &Axis| axis.steps[0] == 0;
    let outer = axes.get(1..).unwrap_or_default();
    let mut at: PerAxis<usize> = smallvec![0; outer.len()];
    loop {
        let is_first = has_first && outer.iter().zip(&at).all(|(axis, &i)| i == 0 || !is_reduced(axis));
        let left_out = match is_first {
            true if is_reduced(&along) || along.extent == 1 => 1,
            true => along.extent,
            false => 0,
        };
        if left_out < along.extent {
            let (mut own, mut count, mut steps) = (args, (along.extent - left_out) as isize, along.steps);
            own[1] = own[1].wrapping_offset(left_out as isize * steps[1]);
            // SAFETY: elements of the views, as the caller vouches; the loop may change what it is given here.
            unsafe { (inner.function)(own.as_mut_ptr(), &raw mut count, steps.as_mut_ptr(), inner.data) };
        }
        if !advance(outer, &mut at, &mut args) {
            return Ok(());
        }
    }
}

/// The axes of the result that have more than one element, the fastest first.
fn axes_of(views: &[(&View, usize)]) -> Result<PerAxis<Axis>> {
    let (result, _) = views[views.len() - 1];
    let mut axes: PerAxis<Axis> = SmallVec::new();
    for (back, &extent) in result.shape.iter().rev().enumerate() {
        let mut steps = [0; MOST_OPERANDS];
        for (step, (view, _)) in steps.iter_mut().zip(views) {
            let Some(axis) = view.shape.len().checked_sub(back + 1) else { continue };
            if view.shape[axis] == extent {
                *step = view.strides[axis];
            } else if view.shape[axis] != 1 {
                return Err(Error::invalid("operands of an instruction that do not broadcast"));
            }
        }
        if extent > 1 {
            axes.push(Axis { extent, steps });
        }
    }
    if views.iter().any(|(view, _)| view.shape.len() > result.shape.len()) {
        return Err(Error::invalid("an operand of an instruction with more axes than the result"));
    }
    Ok(axes)
}

/// What there is where all axes have one element.
fn single(views: &[(&View, usize)]) -> Axis {
    let mut steps = [0; MOST_OPERANDS];
    for (step, (view, itemsize)) in steps.iter_mut().zip(views) {
        *step = if view.shape.is_empty() { 0 } else { *itemsize as isize };
    }
    Axis { extent: 1, steps }
}

/// Walks axes from their other end that all operands have backwards.
fn turn(axes: &mut [Axis], args: &mut PerOperand<*mut c_char>) {
    for axis in axes {
        if axis.steps.iter().all(|&s| s <= 0) && axis.steps.iter().any(|&s| s < 0) {
            for (arg, step) in args.iter_mut().zip(&mut axis.steps) {
                *arg = arg.wrapping_offset(*step * (axis.extent as isize - 1));
                *step = -*step;
            }
        }
    }
}

/// Sorts axes by strides, the smallest first, so far as operands agree about it: else the order is that of the axes.
fn sort(axes: &mut [Axis], operands: usize) {
    for i in 1..axes.len() {
        let mut to = i;
        for before in (0..i).rev() {
            let pairs = axes[i].steps[..operands].iter().zip(&axes[before].steps[..operands]);
            let mut told = pairs.filter(|(own, other)| **own != 0 && **other != 0);
            let is_smaller = |(own, other): (&isize, &isize)| own.abs() < other.abs();
            match told.next().map(is_smaller) {
                None => {}
                // One that sees it the other way has the last word.
                Some(true) if told.all(is_smaller) => to = before,
                Some(_) => break,
            }
        }
        axes[to..=i].rotate_right(1);
    }
}

/// Joins axes that follow one another in all operands.
fn join(axes: &mut PerAxis<Axis>) {
    axes.dedup_by(|next, own| {
        let mut steps = own.steps.iter().zip(&next.steps);
        let follows = steps.all(|(a, b)| a * own.extent as isize == *b);
        if follows {
            own.extent *= next.extent;
        }
        follows
    });
}

/// Goes to the next elements; false where there are no more.
fn advance(outer: &[Axis], at: &mut [usize], args: &mut PerOperand<*mut c_char>) -> bool {
    for (axis, i) in outer.iter().zip(at) {
        *i += 1;
        let back = if *i < axis.extent { 0 } else { axis.extent as isize };
        for (arg, step) in args.iter_mut().zip(&axis.steps) {
            *arg = arg.wrapping_offset(step * (1 - back));
        }
        if back == 0 {
            return true;
        }
        *i = 0;
    }
    false
}
