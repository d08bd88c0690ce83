//! What one thread needs to move boxes.

use crate::error::{Error, Result};
use crate::frame::{Budget, Frame};
use crate::io::disk::LentQueue;
use crate::io::{Cancel, Disk, IoQueue};
use std::sync::Arc;

/// What one thread needs to move boxes: a queue, staging memory, and the flag that stops it.
pub struct Mover<'a> {
    /// Files.
    pub disk: &'a Disk,
    /// For charging heap memory that codecs take.
    pub budget: Arc<Budget>,
    pub(in crate::store) queue: LentQueue<'a>,
    pub(in crate::store) staging: Option<Frame>,
    /// As much of the staging memory as may be used, so that what is read does not depend on what other
    /// arrays need.
    pub room: usize,
    /// Bytes at its beginning that are in use.
    used: usize,
    /// Checked between requests.
    pub cancel: Cancel,
}

impl<'a> Mover<'a> {
    /// A mover with `staging` bytes of staging memory out of `budget`.
    ///
    /// # Errors
    /// [`Error::Budget`]; the operating system's.
    pub fn new(disk: &'a Disk, budget: &Arc<Budget>, staging: usize, cancel: &Cancel) -> Result<Mover<'a>> {
        let staging = if staging == 0 { None } else { Some(budget.frame(staging, "moving data")?) };
        Ok(Mover {
            disk,
            budget: Arc::clone(budget),
            queue: disk.queue()?,
            staging,
            room: usize::MAX,
            used: 0,
            cancel: cancel.clone(),
        })
    }

    /// A mover that does `work` with staging memory that is there already.
    ///
    /// # Errors
    /// Those of `work`; the operating system's.
    pub fn lend<T>(
        disk: &Disk,
        budget: &Arc<Budget>,
        staging: &mut Option<Frame>,
        work: impl FnOnce(&mut Mover) -> Result<T>,
    ) -> Result<T> {
        let mut mover = Mover::new(disk, budget, 0, &Cancel::default())?;
        mover.staging = staging.take();
        let result = work(&mut mover);
        *staging = mover.staging.take();
        result
    }

    /// Does `work`, which gets so many bytes of the staging memory, and whose moving has the rest of it.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Budget`] where the mover was made with less.
    pub(in crate::store) fn beside<T>(
        &mut self,
        bytes: usize,
        work: impl FnOnce(&mut Mover<'a>, *mut u8) -> Result<T>,
    ) -> Result<T> {
        let (_, start, _) = self.parts(bytes)?;
        self.used += bytes;
        let result = work(self, start);
        self.used -= bytes;
        result
    }

    /// The queue, and the staging memory as start and length.
    ///
    /// # Errors
    /// [`Error::Budget`] where the mover was made with less than `least` bytes.
    pub fn parts(&mut self, least: usize) -> Result<(&mut IoQueue, *mut u8, usize)> {
        let (start, len) = self.staging.as_ref().map_or((std::ptr::null_mut(), 0), |f| (f.as_ptr(), f.len()));
        let (start, len) = (start.wrapping_add(self.used), len.min(self.room).saturating_sub(self.used));
        if len < least {
            let budget = self.budget.limit() as u64;
            return Err(Error::Budget {
                purpose: "staging".into(),
                needed: budget + (least - len) as u64,
                budget,
            });
        }
        Ok((&mut self.queue, start, len))
    }
}
