//! The extension module `_conifer`: the crates of conifer for the Python package of the same name.
//!
//! The module is private to the package. The functions take NumPy arrays and plain Python values; `package/conifer`
//! adds defaults, type hints and documentation. Every long computation releases the interpreter lock. All but whole
//! command lines (`program::run`) run on the thread pool of [`threads`].

mod arrays;
mod disc;
mod error;
mod index;
mod loss;
mod model;
mod program;
mod set;
mod space;
mod tensor_ops;
mod threads;
mod train;
mod vectors;

use pyo3::prelude::*;

/// Number of bytes of freed blocks that the allocator may always keep for reuse. It is less than in the program
/// `conifer`, because a Python process also holds data of other libraries.
const SPARE_BYTES: usize = 256 << 20;

// Page faults on large blocks dominated the run time of the tensor engine; see the docs of `conifer-kernels`.
#[global_allocator]
static ALLOCATOR: conifer_kernels::LargeBlockAllocator = conifer_kernels::LargeBlockAllocator::new(SPARE_BYTES);

#[pymodule]
fn _conifer(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<space::SpaceObject>()?;
    module.add_class::<set::SetObject>()?;
    module.add_class::<index::IndexObject>()?;
    module.add_class::<model::ModelObject>()?;
    module.add_function(wrap_pyfunction!(threads::set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(threads::num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_ops::tensor_op, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_ops::tensor_op_backward, module)?)?;
    module.add_function(wrap_pyfunction!(loss::loss, module)?)?;
    module.add_function(wrap_pyfunction!(loss::methods, module)?)?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    module.add_function(wrap_pyfunction!(program::run, module)?)?;
    module.add_function(wrap_pyfunction!(program::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(program::export, module)?)?;
    module.add_function(wrap_pyfunction!(disc::project_disc, module)?)?;
    module.add_function(wrap_pyfunction!(vectors::row_vectors, module)?)?;
    module.add_function(wrap_pyfunction!(vectors::query_vectors, module)?)?;
    Ok(())
}
