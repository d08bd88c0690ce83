//! Axes that stay side by side are moved as one.

use outcrop_store::layout::{AxisOrder, Layout};
use outcrop_store::store::Store;
use outcrop_store::store::adapters::oriented::Orientation;
use outcrop_store::{ArrayBox, Dims};
use std::sync::Arc;

/// A movement between two files with as few axes as possible.
pub(super) struct Folded {
    pub source: Arc<dyn Store>,
    pub region: ArrayBox,
    pub orientation: Orientation,
    pub target: Arc<dyn Store>,
}

/// Axes of the source, slowest on disk first, that are one on both sides.
struct Run {
    axes: AxisOrder,
    reversed: bool,
}

/// The same movement with axes that stay side by side on disk taken for one. `None` where there are none, or where
/// one of the arrays is more than one piece of a file.
pub(super) fn folded(
    source: &Arc<dyn Store>,
    region: &ArrayBox,
    orientation: &Orientation,
    target: &Arc<dyn Store>,
) -> Option<Folded> {
    let whole = source.info().shape.clone();
    let linear = |store: &Arc<dyn Store>| store.info().layout != Layout::Tiled && store.origin().is_none();
    if orientation.is_plain() || region.is_empty() || !linear(source) || !linear(target) {
        return None;
    }
    let long = |axes: AxisOrder| axes.into_iter().filter(|&axis| whole[axis] > 1).collect::<AxisOrder>();
    let from = long(source.file_axes()?);
    // Of the target's axes, the source's.
    let to = long(target.file_axes()?.iter().map(|&axis| orientation.axes[axis]).collect());
    let reversed = |own: usize| {
        let shown = orientation.axes.iter().position(|&axis| axis == own).expect("a permutation");
        orientation.reversed[shown]
    };
    let mut runs: Vec<Run> = Vec::new();
    for (place, &axis) in to.iter().enumerate() {
        let follows = place > 0 && {
            let before = to[place - 1];
            let beside = from.windows(2).any(|pair| pair == [before, axis]);
            // Of axes that are one, all but the first are whole.
            beside && region.shape[axis] == whole[axis] && reversed(before) == reversed(axis)
        };
        match runs.last_mut().filter(|_| follows) {
            Some(run) => run.axes.push(axis),
            None => runs.push(Run { axes: [axis].into_iter().collect(), reversed: reversed(axis) }),
        }
    }
    if runs.is_empty() || runs.len() == whole.len() {
        return None;
    }
    // The source has them in the order in which they lie there.
    let mut order: AxisOrder = (0..runs.len()).collect();
    order.sort_by_key(|&run| from.iter().position(|axis| *axis == runs[run].axes[0]));
    let extent = |run: usize| runs[run].axes.iter().map(|&axis| whole[axis]).product::<u64>();
    let inner = |run: usize| runs[run].axes[1..].iter().map(|&axis| whole[axis]).product::<u64>();
    let shape: Dims = order.iter().map(|&run| extent(run)).collect();
    let start: Dims = order.iter().map(|&run| region.start[runs[run].axes[0]] * inner(run)).collect();
    let taken: Dims = order.iter().map(|&run| region.shape[runs[run].axes[0]] * inner(run)).collect();
    let target_shape: Dims =
        (0..runs.len()).map(|run| region.shape[runs[run].axes[0]] * inner(run)).collect();
    let place = |run: usize| order.iter().position(|&other| other == run).expect("each has a place");
    Some(Folded {
        source: Arc::clone(source).folded(&shape)?,
        region: ArrayBox::new(&start, &taken),
        orientation: Orientation {
            axes: (0..runs.len()).map(place).collect(),
            reversed: runs.iter().map(|run| run.reversed).collect(),
        },
        target: Arc::clone(target).folded(&target_shape)?,
    })
}
