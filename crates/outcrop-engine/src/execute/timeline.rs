//! A record of a run, in the trace format of Chrome's and Perfetto's viewers.

use crate::program::{Program, TileId};
use outcrop_store::io::disk::open_buffered;
use outcrop_store::shape::Tuple;
use outcrop_store::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What an event is called.
pub(super) struct Label<'a> {
    pub name: &'a str,
    pub tile: Option<TileId>,
    /// Of steps that come in rounds.
    pub round: Option<u64>,
}

/// A file that events are written to as they end, so that a long run takes no memory for it.
pub struct Timeline {
    path: PathBuf,
    start: Instant,
    out: Mutex<Out>,
}

struct Out {
    file: BufWriter<File>,
    error: Option<std::io::Error>,
}

/// What a record begins with.
const HEAD: &str = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";

const LANES: [&str; 3] = ["compute", "load", "store"];

impl Timeline {
    /// Starts a record.
    ///
    /// # Errors
    /// The file cannot be made; [`Error::Invalid`] where something stands there that is no record.
    pub fn new(path: &Path) -> Result<Timeline> {
        let failed = |error| Error::io(path, "make the timeline", error);
        let mut beginning = Vec::new();
        match open_buffered(path, File::options().read(true)) {
            Ok(file) => drop(file.take(HEAD.len() as u64).read_to_end(&mut beginning)),
            // What may only be written shows below whether it may.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {}
            Err(error) => return Err(failed(error)),
        }
        if !beginning.is_empty() && beginning != HEAD.as_bytes() {
            return Err(Error::invalid(format!(
                "{}: is no timeline, and is not replaced by one; record the timeline elsewhere",
                path.display()
            )));
        }
        let mut anew = File::options();
        let file = open_buffered(path, anew.write(true).create(true).truncate(true)).map_err(failed)?;
        let mut out = Out { file: BufWriter::new(file), error: None };
        out.write(HEAD);
        for (lane, name) in LANES.iter().enumerate() {
            out.write(&format!(
                "{{\"ph\":\"M\",\"pid\":{lane},\"name\":\"process_name\",\"args\":{{\"name\":\"{name}\"}}}},\n"
            ));
        }
        Ok(Timeline { path: path.into(), start: Instant::now(), out: Mutex::new(out) })
    }

    pub(super) fn record(
        &self,
        program: &Program,
        label: &Label<'_>,
        (lane, worker): (usize, usize),
        (begin, end): (Instant, Instant),
        memory: usize,
    ) {
        let micros = |at: Instant| at.saturating_duration_since(self.start).as_nanos() as f64 / 1e3;
        let tile = label.tile.map_or(String::new(), |tile| {
            let array = program.array_at(program.array_of(tile));
            let region = program.region(tile);
            let coords: Vec<u64> = region.start.iter().zip(&array.grid.tile).map(|(s, t)| s / t).collect();
            format!("{} {}", array.name.replace(['"', '\\'], "'"), Tuple(&coords))
        });
        let round = label.round.map_or(String::new(), |round| format!(",\"round\":{round}"));
        let (name, at, took) = (label.name, micros(begin), micros(end) - micros(begin));
        self.lock().write(&format!(
            "{{\"ph\":\"X\",\"pid\":{lane},\"tid\":{worker},\"name\":\"{name}\",\"ts\":{at:.3},\"dur\":{took:.3},\
             \"args\":{{\"tile\":\"{tile}\"{round}}}}},\n{{\"ph\":\"C\",\"pid\":3,\"name\":\"memory\",\"ts\":{:.3},\
             \"args\":{{\"bytes\":{memory}}}}},\n",
            micros(end)
        ));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the record.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(self) -> Result<()> {
        let mut out = self.out.into_inner().unwrap_or_else(PoisonError::into_inner);
        out.write("{\"ph\":\"M\",\"pid\":3,\"name\":\"process_name\",\"args\":{\"name\":\"memory\"}}]}\n");
        let written = out.error.map_or_else(|| out.file.flush(), Err);
        written.map_err(|e| Error::io(&self.path, "write the timeline", e))
    }
}

impl Out {
    /// What goes wrong is kept, and told at the end: a run is not stopped for its record.
    fn write(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = self.file.write_all(text.as_bytes()).err();
        }
    }
}
