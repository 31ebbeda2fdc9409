//! F4: a finished receipt is cut at every byte, every bit of it flipped, runs of it zeroed, every line deleted, swapped,
//! doubled. With its snapshot beside it, and nothing else, `verify` must refuse each.
//!
//! Runs in this process: the cases are a hundred thousand, and a process each would test the kernel.

use loopexec_engine::{
    layout::Layout,
    verify::{Parts, Trust, verify},
};

use super::{
    Context, Row, Scale,
    scenario::{Place, RUN, SCENARIOS},
};
use crate::support;

/// Bit flips that the gate tries.
const GATE_FLIPS: usize = 6_000;
/// Lengths of runs of zero bytes: one, a word, a sector, a page.
const ZEROED: &[usize] = &[1, 8, 512, 4096];

/// Tries every edit.
pub(super) fn run(context: &mut Context) -> Result<Row, String> {
    let scratch = support::scratch("tamper")?;
    let place = Place::new(&context.binary, scratch.path());
    let scenario = SCENARIOS.first().ok_or("there is no scenario")?;
    place.prepare(scenario)?;
    place.disturbed(scenario, &[])?;
    // Without the copy outside: what is shown is what receipt and snapshot alone can tell.
    let layout = Layout::new(&place.workdir(), None);
    let subject = Subject {
        parts: Parts::of(&layout, RUN),
        original: fs_err::read(layout.receipt(RUN)).map_err(|error| error.to_string())?,
    };
    let mut row = Row::default();
    if !subject.verifies(&subject.original)? {
        return Err("the untouched receipt does not verify".to_owned());
    }
    subject.cuts(&mut row)?;
    subject.flips(context, &mut row)?;
    subject.zeroes(context, &mut row)?;
    subject.lines(&mut row)?;
    Ok(row)
}

struct Subject {
    parts: Parts,
    original: Vec<u8>,
}

impl Subject {
    fn verifies(&self, bytes: &[u8]) -> Result<bool, String> {
        fs_err::write(&self.parts.receipt, bytes).map_err(|error| error.to_string())?;
        verify(&self.parts, None, &Trust::Unasked)
            .map(|found| found.verified())
            .map_err(|error| error.message)
    }

    fn must_fail(&self, bytes: &[u8], kind: &str, case: &str, row: &mut Row) -> Result<(), String> {
        if bytes == self.original {
            return Ok(());
        }
        row.cases += 1;
        row.count(kind);
        if self.verifies(bytes)? {
            row.violations.push(format!("{kind} {case} verifies"));
        }
        Ok(())
    }

    fn cuts(&self, row: &mut Row) -> Result<(), String> {
        for length in 0..self.original.len() {
            let kept = self.original.get(..length).unwrap_or_default();
            self.must_fail(kept, "cut", &format!("at byte {length}"), row)?;
        }
        Ok(())
    }

    fn flips(&self, context: &mut Context, row: &mut Row) -> Result<(), String> {
        let all: Vec<usize> = (0..self.original.len().saturating_mul(8)).collect();
        let mut bytes = self.original.clone();
        for bit in context.sample(all, GATE_FLIPS) {
            let (index, mask) = (bit / 8, 1_u8 << (bit % 8));
            if let Some(byte) = bytes.get_mut(index) {
                *byte ^= mask;
            }
            self.must_fail(&bytes, "bit flipped", &format!("{bit}"), row)?;
            if let Some(byte) = bytes.get_mut(index) {
                *byte ^= mask;
            }
        }
        Ok(())
    }

    fn zeroes(&self, context: &Context, row: &mut Row) -> Result<(), String> {
        let step = match context.scale {
            Scale::Full => 1,
            Scale::Gate => 97,
        };
        for length in ZEROED {
            for start in (0..self.original.len()).step_by(step) {
                let mut bytes = self.original.clone();
                for byte in bytes.iter_mut().skip(start).take(*length) {
                    *byte = 0;
                }
                self.must_fail(&bytes, "zeroed", &format!("{length} at {start}"), row)?;
            }
        }
        Ok(())
    }

    fn lines(&self, row: &mut Row) -> Result<(), String> {
        let lines: Vec<&[u8]> = self
            .original
            .split_inclusive(|byte| *byte == b'\n')
            .collect();
        for index in 0..lines.len() {
            let mut without = lines.clone();
            without.remove(index);
            self.must_fail(&without.concat(), "line deleted", &index.to_string(), row)?;
            let mut doubled = lines.clone();
            doubled.extend(lines.get(index));
            self.must_fail(
                &doubled.concat(),
                "line repeated at the end",
                &index.to_string(),
                row,
            )?;
            let mut twice = lines.clone();
            if let Some(line) = lines.get(index) {
                twice.insert(index, line);
            }
            self.must_fail(&twice.concat(), "line doubled", &index.to_string(), row)?;
            for other in index.saturating_add(1)..lines.len() {
                let mut swapped = lines.clone();
                swapped.swap(index, other);
                let case = format!("{index} and {other}");
                self.must_fail(&swapped.concat(), "lines swapped", &case, row)?;
            }
        }
        Ok(())
    }
}
