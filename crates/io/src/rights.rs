//! How to grant what the kernel keeps from ordinary users.

/// What to do to have such a capability, such as `cap_net_raw`, in the program that asks, which may be any that has
/// loaded a plugin.
pub(crate) fn granting(capability: &str) -> String {
    let program = std::env::current_exe();
    let program = program.map_or_else(|_| "PROGRAM".to_owned(), |path| path.display().to_string());
    format!("run it as root, or grant it once with `setcap {capability}+ep {program}`")
}

#[cfg(test)]
mod tests {
    use super::granting;

    #[test]
    fn a_capability_is_granted_to_the_program_that_asks_for_it() {
        let told = granting("cap_net_raw");
        let own = std::env::current_exe().unwrap();
        assert!(told.ends_with(&format!("`setcap cap_net_raw+ep {}`", own.display())), "{told}");
    }
}
