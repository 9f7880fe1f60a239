mod agreement;
mod damage;
mod losses;
mod pipeline;
mod places;
mod questions;
mod road;
mod spare;
