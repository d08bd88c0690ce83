//! Any tile index is refused or decoded, and what is decoded is encoded to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outcrop_store::TileGrid;
use outcrop_store::format::crc32c;
use outcrop_store::format::index::TileIndex;

fn check(bytes: &[u8], grid: &TileGrid) {
    let Ok(mut index) = TileIndex::decode(bytes, grid) else {
        return;
    };
    assert_eq!(index.encode(), bytes);
    let listed: Vec<(u64, u32)> = (0..index.tiles()).filter_map(|i| Some((i, index.get(i)?))).collect();
    assert_eq!(listed.len() as u64, index.written());
    listed.iter().for_each(|&(i, _)| index.clear(i));
    assert_eq!(Ok(&index), TileIndex::new(grid).as_ref());
    listed.iter().for_each(|&(i, crc)| index.set(i, crc));
    assert_eq!(index.encode(), bytes);
}

fuzz_target!(|input: ([(u64, u8); 3], u8, &[u8])| {
    let (axes, ndim, bytes) = input;
    let (shape, tile): (Vec<u64>, Vec<u64>) =
        axes.into_iter().take(ndim as usize % 4).map(|(n, t)| (n, u64::from(t) + 1)).unzip();
    let grid = TileGrid::new(&shape, &tile).expect("as many extents of each, none zero");
    check(bytes, &grid);

    // Once more with magic, version and stamp right, and once with the grid right too.
    let stamped = |middle: &[&[u8]]| {
        let mut file = b"OUTCRIDX\x01\x00\x00\x00".to_vec();
        middle.iter().for_each(|part| file.extend_from_slice(part));
        let stamp = crc32c(&file);
        file.extend_from_slice(&stamp.to_le_bytes());
        file
    };
    check(&stamped(&[bytes]), &grid);
    let extents: Vec<u8> = shape.iter().chain(&tile).flat_map(|n| n.to_le_bytes()).collect();
    let tiles = grid.counts().iter().fold(1u64, |acc, &n| acc.saturating_mul(n)).to_le_bytes();
    let ndim = (shape.len() as u64).to_le_bytes();
    check(&stamped(&[&[0; 4], &tiles, &ndim, &extents, bytes]), &grid);
});
