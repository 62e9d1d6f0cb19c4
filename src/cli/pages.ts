/** All pages of a listing. */
export async function allPages<Name extends string, Row>(
  page: (cursor: { cursor?: string }) => Promise<{ readonly [N in Name]: Row[] } & { cursor?: string | undefined }>,
  name: Name,
): Promise<Row[]> {
  const rows: Row[] = [];
  let cursor: string | undefined;
  do {
    const answer = await page(cursor === undefined ? {} : { cursor });
    rows.push(...answer[name]);
    cursor = answer.cursor;
  } while (cursor !== undefined);
  return rows;
}
