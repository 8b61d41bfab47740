//! Machines and their nodes: coming up, running programs, dying, going down.

mod attached;
mod bad_input;
mod board_regions;
mod board_windows;
mod boards;
mod chaos;
mod console;
mod death;
mod debian_guest;
mod devices;
mod foreground;
mod guests;
mod hostile;
mod jobs;
mod lifecycle;
mod limits;
mod node_files;
mod own_boot;
mod pages;
mod place;
mod recovery;
mod relays;
mod run;
mod several_images;
mod upgrade;
mod virtual_machines;
