//! Programs in Rust, C and Python, in the tree and outside it.

mod c;
mod files_in_languages;
mod guide;
mod new;
mod python;
mod rcce;
