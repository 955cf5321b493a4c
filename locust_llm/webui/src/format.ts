/** Numbers, times and elements. Texts of a run (names, labels, model ids) are hostile: they enter the page as text
 * nodes only. */

const small = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
const large = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A number for people; a missing one is a dash. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return (Math.abs(value) < 1000 ? small : large).format(value);
}

export function withUnit(value: number | null | undefined, unit: string): string {
  return value === null || value === undefined || !unit ? number(value) : `${number(value)} ${unit}`;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** Wall-clock time of a second, in the viewer's zone; `span_s` is the length of the whole axis. */
export function clock(second: number, span_s = 0): string {
  const at = new Date(second * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (span_s > 86_400) return `${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
  return span_s > 3600 ? time : `${time}:${two(at.getSeconds())}`;
}

type Child = Node | string | null;

/** An element with attributes and children; strings become text nodes. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child): child is Node | string => child !== null));
  return made;
}
