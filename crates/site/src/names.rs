//! Similar names, for hints.

use strsim::damerau_levenshtein;

/// Longest name that is compared. The time of a comparison grows with the product of the lengths.
const MAX_LENGTH: usize = 64;

/// Maximum number of compared names.
const MAX_COMPARED: usize = 1000;

/// The most similar of `known`, if a typing error explains the difference.
pub(crate) fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let name = name.to_lowercase();
    if name.len() > MAX_LENGTH {
        return None;
    }
    let distance = |other: &str| damerau_levenshtein(&name, &other.to_lowercase());
    let allowed = |other: &str| (other.chars().count() / 3).clamp(1, 2);
    let known = known.filter(|other| other.len() <= MAX_LENGTH).take(MAX_COMPARED);
    let close = known.map(|other| (distance(other), other));
    let close = close.filter(|(distance, other)| *distance <= allowed(other));
    close.min().map(|(_, other)| other.to_owned())
}
