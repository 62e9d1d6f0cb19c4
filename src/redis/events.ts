import { z } from 'zod';

/** Events of the log itself and of who serves it (redis/lua/turn.lua, sweeps/daemons.lua). */
export const logEvents = {
  'epoch.began': z.object({
    epoch: z.string(),
    previous: z.string().optional(),
    reason: z.enum(['new', 'reset', 'restarted', 'rewound']),
  }),
  'clock.jumped': z.object({ byMs: z.int() }),
  'daemon.joined': z.object({ daemon: z.string() }),
  'daemon.left': z.object({ daemon: z.string(), reason: z.enum(['stopped', 'silent']) }),
};
