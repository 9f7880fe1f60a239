//! `taut demo`
use crate::failure::Failure;
use crate::flags::Demo;
pub(crate) fn run(_flags: &Demo) -> Result<(), Failure> { Ok(()) }
