//! The clock that leases and signs of life go by: the database's, so that
//! machines whose own clocks differ agree on who is late.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use jiff::Timestamp;

use crate::codec;
use crate::db::Db;
use crate::db::Kind;

/// A reading that took longer says too little.
const SLOW: Duration = Duration::from_secs(1);

/// How far the database's clock is ahead of ours, as it was last read.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// In microseconds; always 0 with SQLite, which runs by our own clock.
    ahead: AtomicI64,
    /// Makes the ends of times different from each other.
    count: AtomicI64,
}

impl Clock {
    /// The time by the database's clock, as fine as it is stored.
    pub(crate) fn now(&self) -> Timestamp {
        let own = codec::now().as_microsecond();
        let moment = own.saturating_add(self.ahead.load(Ordering::Relaxed));
        Timestamp::from_microsecond(moment).unwrap_or_else(|_| codec::now())
    }

    /// The end, in microseconds, of a time that begins now: another one for
    /// each of a thousand callers, so that it tells whose it is.
    pub(crate) fn end_of(&self, time: Duration) -> i64 {
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX - 1000);
        let wanted = self.now().as_microsecond().saturating_add(time);
        let count = self.count.fetch_add(1, Ordering::Relaxed).rem_euclid(1000);
        wanted - wanted.rem_euclid(1000) + count
    }

    /// Reads the database's clock.
    pub(crate) async fn read(&self, db: &mut Db) -> Result<(), sqlx::Error> {
        if db.kind() == Kind::Sqlite {
            return Ok(());
        }
        let asked = Instant::now();
        let before = codec::now().as_microsecond();
        let sql = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";
        let theirs = db.one(sql, []).await?.int(0)?.unwrap_or(before);
        let took = asked.elapsed();
        if took < SLOW {
            let half = i64::try_from(took.as_micros() / 2).unwrap_or_default();
            let ahead = theirs.saturating_sub(before.saturating_add(half));
            self.ahead.store(ahead, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Clock;

    #[test]
    fn ends_are_never_equal() {
        let clock = Clock::default();
        let hour = Duration::from_secs(3600);
        let mut ends: Vec<i64> = (0..1000).map(|_| clock.end_of(hour)).collect();
        let count = ends.len();
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), count);
        let soon = clock.end_of(Duration::from_millis(20)) - clock.now().as_microsecond();
        assert!(soon <= 20_999, "{soon}");
    }
}
