//! Any record of a change is refused or decoded; what is decoded lists tiles of the grid only, and is encoded to the
//! same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outcrop_store::TileGrid;
use outcrop_store::format::crc32c;
use outcrop_store::format::update::UpdateRecord;

fn check(bytes: &[u8], grid: &TileGrid) {
    let Ok(record) = UpdateRecord::decode(bytes, grid) else {
        return;
    };
    assert_eq!(record.encode(), bytes);
    let tiles = grid.counts().iter().fold(1u64, |all, &n| all.saturating_mul(n));
    let listed: Vec<u64> = record.tiles().take(10_000).collect();
    assert!(listed.iter().all(|&i| i < tiles && record.has(i)));
    assert!(listed.is_sorted());
    if listed.len() < 10_000 {
        let again = UpdateRecord::new(grid, listed, record.index, record.metadata);
        assert_eq!(again.as_ref(), Ok(&record));
    }
}

fuzz_target!(|input: ([(u64, u8); 3], u8, u32, Vec<(u64, u64)>, &[u8])| {
    let (axes, ndim, flags, runs, bytes) = input;
    let (shape, tile): (Vec<u64>, Vec<u64>) =
        axes.into_iter().take(ndim as usize % 4).map(|(n, t)| (n, u64::from(t) + 1)).unzip();
    let grid = TileGrid::new(&shape, &tile).expect("as many extents of each, none zero");
    check(bytes, &grid);

    // Once more with everything right but the runs, and what may follow them.
    let mut file = b"OUTCRUPD\x01\x00\x00\x00".to_vec();
    file.extend_from_slice(&flags.to_le_bytes());
    file.extend_from_slice(&(runs.len() as u64).to_le_bytes());
    file.extend_from_slice(&(shape.len() as u64).to_le_bytes());
    shape.iter().chain(&tile).for_each(|n| file.extend_from_slice(&n.to_le_bytes()));
    for (first, count) in &runs {
        file.extend_from_slice(&first.to_le_bytes());
        file.extend_from_slice(&count.to_le_bytes());
    }
    file.extend_from_slice(bytes);
    let stamp = crc32c(&file);
    file.extend_from_slice(&stamp.to_le_bytes());
    check(&file, &grid);
});
