//! The measured speed of a directory's device.
