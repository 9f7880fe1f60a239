use crate::offload::returns::{Cause, Damage, Replacement, Returns, ReturnsConfig};

const REPLACEMENT: Replacement = Replacement::Dry;

fn returns(delay: u32) -> Returns {
    let mut returns = Returns::new(ReturnsConfig {
        inputs: 1,
        outputs: 1,
        rate: 48_000,
        delay: 1024,
        max_frames: 256,
        replacement: REPLACEMENT,
    });
    returns.begin(delay);
    returns
}

fn run(returns: &mut Returns, frames: u32) {
    returns.push_dry(0, &vec![0.25; frames as usize]);
    returns.pull(frames, &mut |_, _| {});
}

fn arrives(returns: &mut Returns, position: u64, frames: u32, clean: bool) -> u32 {
    returns.place(position, 0, &vec![0.5; frames as usize]);
    returns.arrived(position, frames, clean)
}

fn reported(returns: &mut Returns) -> Vec<(u64, u32, Cause)> {
    let reported = core::iter::from_fn(|| returns.poll_damage());
    reported.map(|Damage { from, frames, cause, .. }| (from, frames, cause)).collect()
}

fn all(returns: &mut Returns) -> Vec<(u64, u32, Cause)> {
    returns.settle();
    reported(returns)
}

#[test]
fn adjacent_damage_of_one_cause_is_one_entry() {
    let mut returns = returns(64);
    (0..10).for_each(|_| run(&mut returns, 64));
    (0..3).for_each(|_| run(&mut returns, 17));
    assert_eq!(all(&mut returns), [(0, 9 * 64 + 51, Cause::Lost)]);
}

#[test]
fn block_after_its_turn_is_only_late() {
    let mut returns = returns(64);
    (0..5).for_each(|_| run(&mut returns, 64));
    assert_eq!(reported(&mut returns), []);
    assert_eq!(arrives(&mut returns, 64, 64, true), 0);
    assert_eq!(arrives(&mut returns, 192, 128, true), 64);
    run(&mut returns, 64);
    let expected = [
        (0, 64, Cause::Lost),
        (64, 64, Cause::Late),
        (128, 64, Cause::Lost),
        (192, 64, Cause::Late),
        (256, 48, Cause::Faded),
    ];
    assert_eq!(all(&mut returns), expected);
    assert_eq!(returns.counters().late, 128);
}

#[test]
fn entry_is_reported_once_it_is_final() {
    let mut returns = returns(64);
    (0..2).for_each(|_| run(&mut returns, 64));
    let mut position = 64;
    while position < 64 + 12_000 {
        assert_eq!(reported(&mut returns), [], "at {position}");
        arrives(&mut returns, position, 64, true);
        run(&mut returns, 64);
        position += 64;
    }
    assert_eq!(reported(&mut returns), [(0, 64, Cause::Lost)]);
    assert_eq!(all(&mut returns), [(64, 48, Cause::Faded)]);
}

#[test]
fn invalid_plugin_output_is_played_and_noted() {
    let mut returns = returns(64);
    run(&mut returns, 64);
    arrives(&mut returns, 0, 64, false);
    returns.push_dry(0, &[0.25; 64]);
    let mut received = Vec::new();
    let pulled = returns.pull(64, &mut |_, samples| received.extend_from_slice(samples));
    assert_eq!((pulled.wet, pulled.concealed, pulled.faded), (64, 0, 0));
    assert_eq!(received, [0.5; 64]);
    assert_eq!(all(&mut returns), [(0, 64, Cause::Dirty)]);
}

#[test]
fn a_clean_answer_takes_the_place_of_a_dirty_one() {
    let mut returns = returns(64);
    run(&mut returns, 64);
    arrives(&mut returns, 0, 64, false);
    arrives(&mut returns, 0, 64, true);
    run(&mut returns, 64);
    assert_eq!(all(&mut returns), []);
}

#[test]
fn frames_without_a_worker_are_not_lost() {
    let mut returns = returns(0);
    returns.set_worker(false);
    run(&mut returns, 64);
    returns.set_worker(true);
    run(&mut returns, 64);
    returns.arrived_late(0, 128);
    assert_eq!(all(&mut returns), [(0, 64, Cause::NoWorker), (64, 64, Cause::Late)]);
}

#[test]
fn longer_delay_is_noted_once_and_kept() {
    let mut returns = returns(64);
    for block in 0..8u64 {
        run(&mut returns, 64);
        arrives(&mut returns, block * 64, 64, true);
    }
    // Frame 448 is next, 96 frames later than before.
    assert_eq!(returns.set_delay(160), 160);
    assert_eq!(returns.set_delay(100), 160);
    let mut received = Vec::new();
    let mut concealed = 0;
    for block in 8..12u64 {
        arrives(&mut returns, block * 64, 64, true);
        returns.push_dry(0, &[0.25; 64]);
        concealed +=
            returns.pull(64, &mut |_, samples| received.extend_from_slice(samples)).concealed;
    }
    assert_eq!(concealed, 96);
    assert_eq!(received[48..96], [0.25; 48], "dry");
    assert_eq!(received[96 + 48..], [0.5; 256 - 144]);
    assert_eq!(all(&mut returns), [(448 - 96, 96, Cause::Grown), (448, 48, Cause::Faded)]);
    assert_eq!(returns.set_delay(5000), 1024);
}

#[test]
fn a_delay_that_grows_before_anything_is_played_is_no_damage() {
    let mut returns = returns(64);
    run(&mut returns, 64);
    returns.set_delay(200);
    let before = returns.pull(64, &mut |_, samples| assert_eq!(samples, [0.0; 64])).before;
    assert_eq!(before, 64);
    assert_eq!(all(&mut returns), []);
}

#[test]
fn full_damage_log_counts_unreported_entries() {
    let mut returns = returns(0);
    for block in 0..2100u64 {
        if block % 2 == 0 {
            arrives(&mut returns, block * 8, 8, true);
        }
        run(&mut returns, 8);
    }
    // All but the first block between are cross-faded.
    assert_eq!(returns.damage_overflow(), (1050 + 1049 - 1024) * 8);
    assert_eq!(all(&mut returns).len(), 1024);
}

#[test]
fn entry_has_its_epoch() {
    let mut returns = returns(0);
    run(&mut returns, 64);
    returns.begin(0);
    run(&mut returns, 32);
    assert_eq!(returns.poll_damage().map(|damage| (damage.epoch, damage.frames)), Some((1, 64)));
    assert_eq!(returns.poll_damage(), None);
    returns.settle();
    assert_eq!(returns.poll_damage().map(|damage| (damage.epoch, damage.frames)), Some((2, 32)));
}

#[test]
fn unknown_block_is_not_placed() {
    let mut returns = returns(64);
    run(&mut returns, 64);
    assert_eq!(arrives(&mut returns, 64 + 256, 64, true), 0);
    assert_eq!(arrives(&mut returns, u64::MAX - 3, 64, true), 0);
    assert_eq!(arrives(&mut returns, 256, 128, true), 64);
    assert!(returns.counters().misplaced >= 64);
}
