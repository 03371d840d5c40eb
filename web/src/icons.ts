// Signs of vertices as paths in a box from -12 to 12, for SVG and canvas alike.

import type { Kind } from "./scene";

export const ICONS: Record<Kind, string> = {
  // A screen on its foot.
  host: "M-7.500-6.500h15v9.500h-15zM0 3v3.500M-4 6.500h8",
  // Four arrows: in from the sides, out to above and below.
  router: "M-8.500 0h5.500M-5.200-2.200l2.400 2.200-2.400 2.200M8.500 0h-5.500M5.200-2.200l-2.400 2.200 2.400 2.200M0-2.800v-5.500M-2.200-6l2.200-2.400 2.200 2.400M0 2.800v5.500M-2.200 6l2.200 2.400 2.200-2.400",
  // Two pairs of arrows past each other.
  switch: "M-7.500-3.600h13.500M3.400-6.200l2.800 2.600-2.800 2.600M7.500 3.600h-13.500M-3.400 1l-2.800 2.600 2.800 2.600",
  // Lines of a table beside an arrow.
  openflow: "M-7-5h8M-7 0h8M-7 5h8M4.500-5.500l3.500 5.500-3.500 5.500",
  // A cloud.
  internet: "M-5.500 5.500a4 4 0 0 1-.5-8 5.500 5.500 0 0 1 10.600-1.200 4.300 4.300 0 0 1 1.400 9.200z",
  // A socket in a wall.
  outside: "M-7-7h14v14h-14zM-2.500-2.500v5M2.500-2.500v5",
  nowhere: "M-3.500-3.500l7 7M3.500-3.500l-7 7",
};

/** Whether it stands in a box instead of a circle. */
export function isBoxed(kind: Kind): boolean {
  return kind === "switch" || kind === "openflow" || kind === "outside";
}
