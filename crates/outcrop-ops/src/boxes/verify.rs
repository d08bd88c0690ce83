//! Everything that can be checked about a stored array.

use crate::boxes::movement::threads;
use outcrop_engine::Runtime;
use outcrop_engine::Watch;
use outcrop_engine::stream::{self, Frames, Job};
use outcrop_store::Result;
use outcrop_store::store::{Finding, Mover, Store};
use std::sync::{Arc, Mutex, PoisonError};

struct Verify<'a> {
    store: &'a dyn Store,
    findings: Mutex<Vec<(u64, Finding)>>,
}

impl Job for Verify<'_> {
    fn operation(&self) -> &'static str {
        "verify"
    }
    fn pieces(&self) -> u64 {
        self.store.units()
    }
    fn frames(&self, _: u64) -> Vec<usize> {
        Vec::new()
    }
    fn load_units(&self, _: u64) -> u64 {
        1
    }
    fn store_units(&self, _: u64) -> u64 {
        0
    }
    fn load(&self, mover: &mut Mover, piece: u64, _: u64, _: &Frames) -> Result<()> {
        match self.store.check(mover, piece)? {
            Finding::Sound => {}
            finding => self.findings.lock().unwrap_or_else(PoisonError::into_inner).push((piece, finding)),
        }
        Ok(())
    }
    fn store(&self, _: &mut Mover, _: u64, _: u64, _: &Frames) -> Result<()> {
        Ok(())
    }
    fn progress(&self, _: u64) -> u64 {
        let info = self.store.info();
        info.nbytes() / self.store.units().max(1)
    }
}

/// Reads a whole array and reports what is not as it was written, one line each. With `accept`,
/// tiles that are sound in themselves are recorded as they are, and not reported.
///
/// # Errors
/// Those that prevent checking at all.
pub fn verify(
    runtime: &Runtime,
    store: &Arc<dyn Store>,
    accept: bool,
    watch: &mut dyn Watch,
) -> Result<Vec<String>> {
    crate::boxes::access::flush(runtime, store)?;
    runtime.tune(&store.info().path, store.info().nbytes());
    let job = Verify { store: store.as_ref(), findings: Mutex::default() };
    stream::run(runtime, &job, threads(runtime, store.staging(false), None), watch)?;
    let mut findings = job.findings.into_inner().unwrap_or_else(PoisonError::into_inner);
    findings.sort_by_key(|(unit, _)| *unit);
    let mut findings: Vec<Finding> = findings.into_iter().map(|(_, f)| f).collect();
    if accept && findings.iter().any(|f| matches!(f, Finding::Stale(..))) {
        store.accept(&findings)?;
        findings.retain(|f| !matches!(f, Finding::Stale(..)));
    }
    Ok(findings
        .into_iter()
        .map(|finding| match finding {
            Finding::Damaged(what) | Finding::Stale(_, _, what) => what,
            Finding::Sound => String::new(),
        })
        .collect())
}
