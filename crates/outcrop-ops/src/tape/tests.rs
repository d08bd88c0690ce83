use super::inner::{reduce, run};
use super::view::{PerAxis, View};
use super::{Inner, Instruction, Lines, Loop, Place, Shown, Tape, Value, When};
use outcrop_engine::program::{Operand, TileId};
use outcrop_store::DType;
use proptest::prelude::*;
use std::ffi::{c_char, c_void};

/// Adds numbers, and counts calls.
unsafe extern "C" fn add(args: *mut *mut c_char, count: *mut isize, steps: *mut isize, calls: *mut c_void) {
    // SAFETY: two operands and a result, as the tests have it.
    unsafe {
        for i in 0..*count {
            let at = |n: usize| (*args.add(n)).offset(i * *steps.add(n)).cast::<i64>();
            *at(2) = *at(0) + *at(1);
        }
        *calls.cast::<usize>() += 1;
    }
}

/// The function above, as an inner loop.
fn adding(calls: *mut usize) -> Inner {
    Inner { name: "add".into(), function: add, data: calls.cast() }
}

fn view(memory: &mut [i64], shape: &[usize], strides: &[isize]) -> View {
    let strides = strides.iter().map(|s| s * 8).collect();
    View { start: memory.as_mut_ptr().cast(), shape: shape.iter().copied().collect(), strides }
}

/// Sums of two operands in a dense array of a shape, and in how many calls.
fn sums(one: &View, other: &View, shape: &[usize]) -> (Vec<i64>, usize) {
    let mut made = vec![0i64; shape.iter().product()];
    let out = View::dense(made.as_mut_ptr().cast(), shape.iter().copied().collect(), 8);
    let mut calls = 0usize;
    // SAFETY: the views are of the tests' vectors.
    unsafe { run(&adding(&raw mut calls), &[(one, 8), (other, 8), (&out, 8)]).unwrap() };
    (made, calls)
}

#[test]
fn what_follows_one_another_is_one_call() {
    let (mut a, mut b): (Vec<i64>, Vec<i64>) = ((0..24).collect(), (0..24).map(|i| 100 * i).collect());
    let (one, other) = (view(&mut a, &[2, 3, 4], &[12, 4, 1]), view(&mut b, &[2, 3, 4], &[12, 4, 1]));
    let (made, calls) = sums(&one, &other, &[2, 3, 4]);
    assert_eq!(made, (0..24).map(|i| 101 * i).collect::<Vec<_>>());
    assert_eq!(calls, 1);
}

#[test]
fn operands_broadcast() {
    let (mut a, mut b): (Vec<i64>, Vec<i64>) = ((0..4).collect(), vec![10, 20, 30]);
    let (row, column) = (view(&mut a, &[4], &[1]), view(&mut b, &[3, 1], &[1, 1]));
    let (made, calls) = sums(&row, &column, &[3, 4]);
    assert_eq!(made, [10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33]);
    assert_eq!(calls, 3);
    let mut number = vec![5];
    let (made, calls) = sums(&row, &view(&mut number, &[], &[]), &[4]);
    assert_eq!((made, calls), (vec![5, 6, 7, 8], 1));
}

#[test]
fn what_does_not_broadcast_is_refused() {
    let (mut a, mut b) = (vec![0; 4], vec![0; 8]);
    let (one, other) = (view(&mut a, &[4], &[1]), view(&mut b, &[4], &[1]));
    let out = view(&mut [0; 3], &[3], &[1]);
    // SAFETY: nothing is called.
    unsafe { run(&adding(std::ptr::null_mut()), &[(&one, 8), (&other, 8), (&out, 8)]).unwrap_err() };
    let (more, out) = (view(&mut b, &[2, 4], &[4, 1]), view(&mut a, &[4], &[1]));
    // SAFETY: as above.
    unsafe { run(&adding(std::ptr::null_mut()), &[(&more, 8), (&other, 8), (&out, 8)]).unwrap_err() };
}

/// Strides of axes that lie in this order, from the fastest to the slowest, with gaps between them, some `backwards`;
/// where the first element is; and how many there are from one end to the other.
fn lying(shape: &[usize], order: &[usize], gaps: &[usize], backwards: &[bool]) -> (Vec<isize>, isize, isize) {
    let (mut strides, mut first, mut reach) = (vec![0; shape.len()], 0, 1);
    for &axis in order.iter().filter(|&&a| a < shape.len()) {
        let stride = reach * gaps[axis] as isize;
        let last = stride * (shape[axis].max(1) as isize - 1);
        (strides[axis], first) = if backwards[axis] { (-stride, first + last) } else { (stride, first) };
        reach += last;
    }
    (strides, first, reach)
}

proptest! {
    /// Of operands that lie in any way, also backwards, each element is taken once, from its place.
    #[test]
    fn elements_are_those_of_their_indices(
        shape in prop::collection::vec(0usize..5, 0..4),
        order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
        steps in prop::collection::vec(1usize..3, 4),
        backwards in prop::collection::vec(any::<bool>(), 4),
        single in prop::collection::vec(any::<bool>(), 4),
    ) {
        let ndim = shape.len();
        let (strides, first, reach) = lying(&shape, &order, &steps, &backwards);
        let mut memory: Vec<i64> = (0..reach as i64).collect();
        let mut one = view(&mut memory, &shape, &strides);
        one.start = one.start.wrapping_offset(first * 8);
        let other_shape: Vec<usize> = shape.iter().zip(&single).map(|(&n, &s)| if s { 1 } else { n }).collect();
        let mut thousands: Vec<i64> = (0..625).map(|i| i * 1000).collect();
        let other = View::dense(thousands.as_mut_ptr().cast(), other_shape.iter().copied().collect(), 8);
        let (made, _) = sums(&one, &other, &shape);
        for (i, &sum) in made.iter().enumerate() {
            let mut rest = i;
            let mut index: PerAxis<usize> = PerAxis::from_elem(0, ndim);
            for axis in (0..ndim).rev() {
                (rest, index[axis]) = (rest / shape[axis], rest % shape[axis]);
            }
            let own = first + index.iter().zip(&strides).map(|(&i, s)| i as isize * s).sum::<isize>();
            let there = index.iter().zip(&other_shape).fold(0, |at, (&i, &n)| at * n + i.min(n - 1));
            prop_assert_eq!(sum, own as i64 + 1000 * there as i64);
        }
    }
}

proptest! {
    /// Of an operand that lies in any way, each element is joined once to that of the axes which are left.
    #[test]
    fn what_is_reduced_is_taken_once(
        shape in prop::collection::vec(1usize..5, 0..4),
        order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
        gaps in prop::collection::vec(1usize..3, 4),
        reduced in prop::collection::vec(any::<bool>(), 4),
        has_first in any::<bool>(),
    ) {
        let ndim = shape.len();
        let (strides, _, reach) = lying(&shape, &order, &gaps, &[false; 4]);
        let mut memory: Vec<i64> = (0..reach as i64).map(|i| i * i).collect();
        let operand = view(&mut memory, &shape, &strides);
        let (mut spread, mut count) = (vec![0isize; ndim], 1usize);
        for axis in (0..ndim).rev().filter(|&a| !reduced[a]) {
            (spread[axis], count) = (count as isize, count * shape[axis]);
        }
        // Where the first elements are not there yet, a number that changes nothing is.
        let (mut made, mut expected) = (vec![0i64; count], vec![0i64; count]);
        for i in 0..shape.iter().product::<usize>() {
            let mut rest = i;
            let (mut from, mut to, mut is_first) = (0, 0, true);
            for axis in (0..ndim).rev() {
                let own = (rest % shape[axis]) as isize;
                rest /= shape[axis];
                from += own * strides[axis];
                to += own * spread[axis];
                is_first &= !reduced[axis] || own == 0;
            }
            expected[to as usize] += memory[from as usize];
            if has_first && is_first {
                made[to as usize] = memory[from as usize];
            }
        }
        let result = view(&mut made, &shape, &spread);
        let mut calls = 0usize;
        // SAFETY: the views are of the vectors above.
        unsafe { reduce(&adding(&raw mut calls), (&operand, 8), (&result, 8), has_first).unwrap() };
        prop_assert_eq!(made, expected);
    }
}

/// A tape that adds a tile to another one, each along two lines of 10 and 20 indices, of which the first one is cut.
fn tape(values: Vec<usize>) -> outcrop_store::Result<Tape> {
    let lines = Lines { extents: vec![10, 20], cut: vec![(0, 5)], strips: Some((0, 4)) };
    let shown: Vec<Shown> = (0..2).map(|axis| Shown { axis: Some(axis), step: 1, first: 0 }).collect();
    let value = |i| Value { dtype: DType::I64, lines: vec![0, 1], place: Place::Tile(i, shown.clone()) };
    let own = Loop { inner: adding(std::ptr::null_mut()), values };
    // SAFETY: it is not run.
    unsafe {
        Tape::new(lines, (0..2).map(value).collect(), vec![(When::Strip, Instruction::Loop(own))], 0..0)
    }
}

#[test]
fn a_tape_knows_its_values() {
    assert_eq!(tape(vec![0, 1, 0]).unwrap().tiles(), 2);
    tape(vec![0, 2, 0]).unwrap_err();
    tape(vec![]).unwrap_err();
    tape(vec![0; 5]).unwrap_err();
}

#[test]
fn steps_stay_inside_their_arrays_and_write_what_is_theirs() {
    let tape = tape(vec![0, 1, 0]).unwrap();
    let (read, update) = (Operand::read(TileId(0)), Operand::update(TileId(1)));
    let of = |parts: &[u64], places: &[u16]| {
        let mut made = Vec::new();
        tape.push_arguments(&mut made, parts, places, &[read, update]).map(|()| made)
    };
    assert_eq!(of(&[1], &[1, 0]).unwrap(), [1 | 1 << 32]);
    assert_eq!(tape.arguments(), 1);
    of(&[1], &[0, 1]).unwrap_err();
    of(&[2], &[1, 0]).unwrap_err();
    of(&[1], &[1, 2]).unwrap_err();
    of(&[1, 1], &[1, 0]).unwrap_err();
    of(&[], &[1, 0]).unwrap_err();
}
