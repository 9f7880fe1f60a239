//! Tests of several senders on one link.

use super::*;
use crate::receive_engine::mixer::{SharedLink, SharedNews};

const WAITING: [usize; 3] = [7, 8, 9];

struct Ordinary {
    waiting: Producer<MixerInput>,
    news: Consumer<SharedNews>,
    gone: Consumer<MixerInput>,
}

impl Ordinary {
    fn arrived(&mut self) -> Vec<usize> {
        let news = core::iter::from_fn(|| self.news.pop().ok());
        news.filter_map(|news| match news {
            SharedNews::Arrived { number, .. } => Some(number),
            SharedNews::Unplaced(_) => None,
        })
        .collect()
    }

    fn gone(&mut self) -> Vec<usize> {
        core::iter::from_fn(|| self.gone.pop().ok()).map(|input| input.number).collect()
    }
}

fn senders(select: ProgramRule, levels: &[f32], maximum: usize) -> (World, Ordinary) {
    let mut world = World::new(select, &levels[..1]);
    world.levels = levels.into();
    world.queues = vec![Arc::clone(&world.queues[0]); levels.len()];
    let (mut waiting, waiting_out) = RingBuffer::new(8);
    let ((news_in, news), (gone_in, gone)) = (RingBuffer::new(8), RingBuffer::new(8));
    for number in WAITING {
        let spare = MixerInput { number, shares: true, ..incoming(&Queue::default()) };
        waiting.push(spare).unwrap_or_else(|_| panic!("the ring is full"));
    }
    world.mixer.inputs.reserve_exact(WAITING.len());
    world.mixer.inputs[0].shares = true;
    world.mixer.shared = vec![SharedLink::new(0, maximum, waiting_out, news_in, gone_in)];
    (world, Ordinary { waiting, news, gone })
}

fn play(world: &mut World, ticks: u32, sending: &[usize]) -> f32 {
    for _ in 0..ticks {
        world.play(1, sending);
        let now = LocalTime::ZERO + TICK.times(i64::from(world.tick));
        world.mixer.settle_shared(now);
    }
    ends(&world.played)
}

#[test]
fn all_senders_at_a_link_play_and_one_can_leave() {
    let (mut world, mut ordinary) = senders(ProgramRule::Mix, &[0.1, 0.2, 0.4, 0.05], 4);
    assert_eq!(play(&mut world, 50, &[0, 1, 2]), 0.1 + 0.2 + 0.4);
    assert_eq!((ordinary.arrived(), ordinary.gone()), (vec![0, 7, 8], vec![]));
    assert_eq!(play(&mut world, 3100, &[0, 2]), 0.1 + 0.4);
    assert_eq!(ordinary.gone(), [7]);
    assert_eq!(play(&mut world, 50, &[0, 2, 3]), 0.1 + 0.4 + 0.05);
    assert_eq!(ordinary.arrived(), [9]);
    assert_eq!(play(&mut world, 3100, &[3]), 0.05, "the first goes, too, and has its place");
    assert_eq!((ordinary.gone(), world.mixer.inputs.len()), (vec![8], 2));
    let foreign = |input: &MixerInput| input.receiver.counters().other_source;
    assert!(world.mixer.inputs.iter().all(|input| foreign(input) == 0));
}

#[test]
fn chosen_sender_stays_when_another_leaves() {
    let (mut world, mut ordinary) = senders(ProgramRule::FirstAlive, &[0.1, 0.2, 0.4], 4);
    play(&mut world, 50, &[0, 1, 2]);
    assert_eq!(play(&mut world, 300, &[2]), 0.4);
    let before = world.played.len();
    play(&mut world, 3100, &[2]);
    assert_eq!((ordinary.gone(), world.mixer.programs.chosen()), (vec![7], Some(1)));
    assert!(world.played[before..].iter().all(|sample| *sample == 0.4), "no step");
}

#[test]
fn sender_plays_once_a_receiver_is_ready() {
    let (mut world, mut ordinary) = senders(ProgramRule::Mix, &[0.1, 0.2, 0.4, 0.05, 0.3], 5);
    world.mixer.inputs.reserve_exact(8);
    assert_eq!(play(&mut world, 50, &[0, 1, 2, 3, 4]), 0.1 + 0.2 + 0.4 + 0.05);
    assert_eq!(ordinary.arrived(), [0, 7, 8, 9]);
    let spare = MixerInput { number: 10, shares: true, ..incoming(&Queue::default()) };
    assert!(ordinary.waiting.push(spare).is_ok());
    assert_eq!(play(&mut world, 50, &[0, 1, 2, 3, 4]), 0.1 + 0.2 + 0.4 + 0.05 + 0.3);
}
