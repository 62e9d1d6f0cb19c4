/** Why we close a socket. 44xx: do not come back unchanged. 45xx and 101x: come back with back-off. */
export const closeCodes = {
  normal: 1000,
  drain: 1012,
  overload: 1013,
  misuse: 4400,
  badCredentials: 4401,
  revoked: 4403,
  replaced: 4409,
  limitHit: 4429,
  credentialsExpired: 4501,
  stalled: 4508,
} as const;
