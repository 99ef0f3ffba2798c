#![allow(clippy::unwrap_used)]
use super::threads::on_ranks;
use super::*;

#[test]
fn shares_cover_all_rows_in_order() {
    for size in 1..6 {
        for rows in 0..14 {
            let shares = on_ranks(size, |ranks| ranks.share(rows));
            assert_eq!(shares.iter().cloned().flatten().collect::<Vec<_>>(), (0..rows).collect::<Vec<_>>());
            let lengths = shares.iter().map(Range::len);
            assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1);
        }
    }
}

#[test]
fn values_are_gathered_in_order() {
    for (size, rows) in [(3, 7), (4, 2), (2, 0), (1, 3)] {
        let gathered = on_ranks(size, |ranks| {
            let mine: Vec<f32> = ranks.share(rows).flat_map(|row| [row as f32, -(row as f32)]).collect();
            ranks.gather(&mine)
        });
        let expected: Vec<f32> = (0..rows).flat_map(|row| [row as f32, -(row as f32)]).collect();
        assert!(gathered.iter().all(|all| *all == expected), "{size} ranks, {rows} rows: {gathered:?}");
    }
}

/// The sums equal those of a loop over the ranks in their order, also for lengths that are not divisible by the number
/// of ranks, and for more values than fit in one message.
#[test]
fn values_are_summed_in_the_order_of_the_ranks() {
    for length in [0, 1, 5, 2 * BLOCK * 3 + 7] {
        let value = |rank: usize, i: usize| ((i * 31 + rank * 17) % 1009) as f32 / 7.0 - 60.0;
        let sums = on_ranks(3, |ranks| {
            let mut values: Vec<f32> = (0..length).map(|i| value(ranks.rank(), i)).collect();
            ranks.sum(&mut values);
            values
        });
        let expected: Vec<f32> = (0..length).map(|i| (value(0, i) + value(1, i)) + value(2, i)).collect();
        assert!(sums.iter().all(|found| *found == expected), "{length} values");
    }
}

/// The last rank fails before, between or after the two inner exchanges. All ranks get the error once, and their next
/// collective calls match each other.
#[test]
fn an_error_between_exchanges_reaches_all_ranks() {
    for size in [1, 2, 3] {
        for failing in 0..3 {
            let found = on_ranks(size, |ranks| {
                let part = |number: usize| match number == failing && ranks.rank() == size - 1 {
                    true => Err(Error::invalid("part", number, "another one")),
                    false => Ok(()),
                };
                let inner = || {
                    part(0)?;
                    ranks.agree(Ok::<(), Error>(()))?;
                    part(1)?;
                    ranks.agree(Ok::<(), Error>(()))?;
                    part(2)
                };
                let error = ranks.agree(ranks.agree(inner())).unwrap_err().to_string();
                let saved = ranks.lead(|| Ok::<_, Error>(7)).unwrap();
                (error, saved, ranks.gather(&[ranks.rank() as f32]))
            });
            for (rank, (error, saved, gathered)) in found.iter().enumerate() {
                assert_eq!(error.matches("`part`").count(), 1, "{error}");
                assert_eq!((*saved, gathered.len()), ((rank == 0).then_some(7), size));
            }
        }
    }
}

#[test]
fn a_part_of_the_values_is_summed_for_each_rank() {
    for (size, length) in [(3, 10), (4, 2), (2, 0), (1, 3)] {
        let value = |rank: usize, i: usize| ((i * 31 + rank * 17) % 1009) as f32 / 7.0 - 60.0;
        let sums = on_ranks(size, |ranks| {
            let values: Vec<f32> = (0..length).map(|i| value(ranks.rank(), i)).collect();
            ranks.sum_part(&values, ranks.share(length))
        });
        let expected: Vec<f32> =
            (0..length).map(|i| (1..size).fold(value(0, i), |sum, rank| sum + value(rank, i))).collect();
        assert_eq!(sums.concat(), expected, "{size} ranks, {length} values");
    }
    let numbers = on_ranks(3, |ranks| ranks.sum_numbers(&[ranks.rank() as f64, 0.5]));
    assert!(numbers.iter().all(|it| *it == [3.0, 1.5]), "{numbers:?}");
}

#[test]
fn flags_and_largest_values_are_those_of_any_rank() {
    let found = on_ranks(3, |ranks| {
        let rank = ranks.rank();
        (ranks.any(rank == 2), ranks.any(false), ranks.max(rank as u64 * 5), ranks.any_of(&[rank == 1, false]))
    });
    assert!(found.iter().all(|it| *it == (true, false, 10, vec![true, false])), "{found:?}");
}

#[test]
fn an_error_of_a_rank_is_the_error_of_all() {
    let wrong = |name: &str| Error::invalid(name, 1, "2");
    let errors = on_ranks(4, |ranks| {
        let result = if ranks.rank() % 2 == 1 { Err(wrong("a")) } else { Ok(5) };
        ranks.agree(result).unwrap_err().to_string()
    });
    assert!(errors.iter().all(|it| it == "ranks 1, 3 of 4: train: `a` is 1; expected 2"), "{errors:?}");
    let errors = on_ranks(3, |ranks| {
        let result: Result<()> = Err(wrong(if ranks.rank() == 0 { "b" } else { "a" }));
        ranks.agree(result).unwrap_err().to_string()
    });
    assert_eq!(errors[2], "rank 0 of 3: train: `b` is 1; expected 2; ranks 1, 2 of 3: train: `a` is 1; expected 2");
    // If all ranks have the same error, the message has no rank numbers, even after a second `agree`.
    let errors = on_ranks(2, |ranks| {
        let result = ranks.agree::<(), Error>(Err(wrong("a")));
        ranks.agree(result).unwrap_err().to_string()
    });
    assert_eq!(errors[1], "train: `a` is 1; expected 2");
    let one = on_ranks(1, |ranks| matches!(ranks.agree::<(), Error>(Err(wrong("a"))), Err(Error::Invalid { .. })));
    assert_eq!(one, [true]);
}

#[test]
fn rank_0_works_alone_and_differences_are_named() {
    let found = on_ranks(3, |ranks| {
        let led = ranks.lead(|| Ok::<_, Error>(ranks.rank())).unwrap();
        let failed = ranks.lead(|| Err::<(), _>(Error::invalid("x", 1, "2"))).unwrap_err().to_string();
        let same = ranks.same("config", "equal", "").is_ok();
        let value = if ranks.rank() == 1 { "b" } else { "a" };
        let bytes = ranks.from_rank_0(&[7 + ranks.rank() as u8; 3][..3 - ranks.rank()]);
        assert_eq!(bytes, [7; 3]);
        (led, failed, same, ranks.same("config", value, "start all ranks alike").unwrap_err().to_string())
    });
    let leds: Vec<_> = found.iter().map(|it| it.0).collect();
    assert_eq!(leds, [Some(0), None, None]);
    for (_, failed, same, message) in found {
        assert_eq!(failed, "rank 0 of 3: train: `x` is 1; expected 2");
        assert!(same);
        let expected = "train: `config` differs between the ranks (ranks 0, 2 of 3: a; rank 1 of 3: b); expected one value; \
                        start all ranks alike";
        assert_eq!(message, expected);
    }
}
