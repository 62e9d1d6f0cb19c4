import { z } from 'zod';
import { Refusal } from '../errors.js';
import { MsOrZero, Priority } from '../protocol/primitives.js';

const Depth = z.int().min(1).max(1_000_000_000);
const Ratio = z.number().min(0).max(100);

/** When a queue advises a delay, sheds and rejects. Off unless given; the utilisation counts only where it is given. */
export const Admission = z.strictObject({
  low: Depth.default(100),
  high: Depth.default(500),
  critical: Depth.default(1000),
  /** Completed tasks a second, judged while at least `low` wait; 0 asks for none. */
  minRate: z.number().min(0).max(1_000_000).default(10),
  delayPerTaskMs: MsOrZero.default(10),
  delayMaxMs: MsOrZero.default(5000),
  shedBelow: Priority.default(25),
  utilisation: z.strictObject({ on: Ratio.default(0.9), off: Ratio.default(0.7) }).optional(),
});
export type Admission = z.output<typeof Admission>;

/** Each field is right; do they agree with each other? */
export function checkAdmission({ low, high, critical, utilisation }: Admission): void {
  if (low > high || high > critical) {
    const said = `low ${low}, high ${high}, critical ${critical}`;
    throw new Refusal('INVALID', `admission: ${said}; expected low <= high <= critical`);
  }
  if (utilisation && utilisation.off > utilisation.on) {
    const { on, off } = utilisation;
    throw new Refusal('INVALID', `admission: utilisation.off (${off}) is above utilisation.on (${on})`);
  }
}

/** As it is stored with the queue and read by redis/lua/admission.lua. */
export function admissionText(admission: Admission): string {
  const { low, high, critical, minRate, delayPerTaskMs, delayMaxMs, shedBelow, utilisation } = admission;
  const rate = minRate.toFixed(6).replace(/\.?0+$/, '');
  const sides = utilisation ? [utilisation.on, utilisation.off] : ['', ''];
  return [low, high, critical, rate, delayPerTaskMs, delayMaxMs, shedBelow, ...sides].join(',');
}

export function parseAdmission(text: string): Admission {
  const [on, off] = text.split(',').slice(7) as [string, string];
  const [low, high, critical, minRate, delayPerTaskMs, delayMaxMs, shedBelow] = text
    .split(',')
    .slice(0, 7)
    .map(Number) as [number, number, number, number, number, number, number];
  const utilisation = on === '' ? {} : { utilisation: { on: Number(on), off: Number(off) } };
  return { low, high, critical, minRate, delayPerTaskMs, delayMaxMs, shedBelow, ...utilisation };
}
