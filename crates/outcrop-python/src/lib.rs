//! The Python extension module `outcrop._native`: conversions only, no logic.

mod block;
mod convert;
mod ending;
mod errors;
mod function;
mod memory;
mod movement;
mod plan;
mod process;
mod products;
mod program;
mod reader;
mod reserve;
mod store;
mod tape;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::block::Block;
    #[pymodule_export]
    use super::ending::end;
    #[pymodule_export]
    use super::function::{external_store, function_store};
    #[pymodule_export]
    use super::memory::{Charge, Output};
    #[pymodule_export]
    use super::movement::{
        copy_box, lay, plan_copy, plan_fill, plan_lay, sketch, sketch_encoded, sketch_in_memory, suppose,
    };
    #[pymodule_export]
    use super::process::{
        Operation, ScratchDirectory, configure, default_memory, default_tile, doctor, forget_unchanged,
        inject_faults, last_run, memory_asked_for, operations_seen, status, total_memory,
    };
    #[pymodule_export]
    use super::products::{mirror, multiply, multiply_memory, product_cost, product_function};
    #[pymodule_export]
    use super::program::{Draft, ProgramPlan, plan_program, square_side};
    #[pymodule_export]
    use super::reader::BoxReader;
    #[pymodule_export]
    use super::store::{
        Store, commit, create, create_file, fill, json_members, merged, open, open_chunks, open_encoded,
        open_file, pnm_offset, reopen,
    };
    #[pymodule_export]
    use super::tape::{TapeDraft, has_loop};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::ending::be_quiet();
        // What NumPy offers is looked for at first use, where Ctrl-C would be a panic: rather now.
        let py = module.py();
        py.import("numpy")?;
        let _ = numpy::dtype::<u8>(py);
        // What this thread has to itself is there before memory is short: without any, the C library would end the
        // process.
        let _ = std::thread::current();
        pyo3::types::PyModuleMethods::add(module, "__version__", env!("CARGO_PKG_VERSION"))
    }
}
