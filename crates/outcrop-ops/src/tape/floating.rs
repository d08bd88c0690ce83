//! Floating-point errors: what the processor has noted of them.

use std::ffi::c_int;

/// Kinds of errors, each a bit, as NumPy numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Infinity, exactly, from finite numbers.
    pub const DIVIDE: Flags = Flags(1);
    /// A result too large for its type.
    pub const OVER: Flags = Flags(2);
    /// A result too small for its type.
    pub const UNDER: Flags = Flags(4);
    /// A result that is no number.
    pub const INVALID: Flags = Flags(8);

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of both.
    #[must_use]
    pub fn with(self, others: Flags) -> Flags {
        Flags(self.0 | others.0)
    }

    /// Those that are not among others.
    #[must_use]
    pub fn without(self, others: Flags) -> Flags {
        Flags(self.0 & !others.0)
    }
}

/// The bits of `<fenv.h>`.
#[cfg(target_arch = "x86_64")]
const KINDS: [(c_int, Flags); 4] =
    [(0x01, Flags::INVALID), (0x04, Flags::DIVIDE), (0x08, Flags::OVER), (0x10, Flags::UNDER)];
#[cfg(target_arch = "aarch64")]
const KINDS: [(c_int, Flags); 4] =
    [(0x01, Flags::INVALID), (0x02, Flags::DIVIDE), (0x04, Flags::OVER), (0x08, Flags::UNDER)];
/// Of other processors nothing is known: no error is seen there.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const KINDS: [(c_int, Flags); 0] = [];

#[cfg_attr(target_os = "linux", link(name = "m"))]
unsafe extern "C" {
    fn feclearexcept(kinds: c_int) -> c_int;
    fn fetestexcept(kinds: c_int) -> c_int;
}

fn every_kind() -> c_int {
    KINDS.iter().fold(0, |all, (bit, _)| all | bit)
}

/// What errors the work makes, on this thread. Those that were noted before are forgotten.
pub(super) fn noting(work: impl FnOnce()) -> Flags {
    // SAFETY: the C library's; they touch the status of this thread alone.
    unsafe { feclearexcept(every_kind()) };
    work();
    // SAFETY: as above.
    let noted = unsafe { fetestexcept(every_kind()) };
    let seen = KINDS.iter().filter(|(bit, _)| noted & bit != 0);
    seen.fold(Flags::default(), |all, (_, kind)| all.with(*kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn errors_are_told_apart() {
        let made = |one: f64, other: f64, op: fn(f64, f64) -> f64| {
            noting(|| {
                black_box(op(black_box(one), black_box(other)));
            })
        };
        let divided = |a, b| made(a, b, |x, y| x / y);
        let multiplied = |a, b| made(a, b, |x, y| x * y);
        assert_eq!(divided(1.0, 4.0), Flags::default());
        assert_eq!(divided(1.0, 0.0), Flags::DIVIDE);
        assert_eq!(divided(0.0, 0.0), Flags::INVALID);
        assert_eq!(multiplied(1e300, 1e300), Flags::OVER);
        assert_eq!(multiplied(1e-300, 1e-300), Flags::UNDER);
        // What was noted before is not this one's.
        assert_eq!(multiplied(2.0, 3.0), Flags::default());
    }
}
