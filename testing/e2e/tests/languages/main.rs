//! Programs in Rust, C, Python and Go, in the tree and outside it.

mod c;
mod c_on_boards;
mod files_in_languages;
mod go;
mod groups_in_languages;
mod guide;
mod new;
mod python;
mod rcce;
mod tasks_in_languages;
