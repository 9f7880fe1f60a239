use tautline_proto::device::Stop;

#[test]
fn a_part_stops_with_the_whole_and_the_whole_goes_on_without_it() {
    let whole = Stop::default();
    let (part, other) = (whole.part(), whole.part());
    let part_of_it = part.part();
    part.request();
    assert!(part.is_requested() && part_of_it.is_requested());
    assert!(!whole.is_requested() && !other.is_requested());
    whole.request();
    assert!(other.is_requested() && other.part().is_requested());
}
