// A plot of the last five minutes: one line for each direction.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { KEPT } from "./store";
import { clock } from "./text";

interface Props {
  title: string;
  times: number[];
  lines: [number[], number[]];
  names: [string, string];
  format: (value: number) => string;
  theme: string;
}

const HEIGHT = 132;

/** The mouse's value of each line, beside the title. */
function Legend({ names }: { names: [string, string] }) {
  return (
    <div class="legend">
      {names.map((name, at) => (
        <span key={at}><i class={at === 0 ? "there" : "back"} />{name}</span>
      ))}
    </div>
  );
}

export function Plot({ title, times, lines, names, format, theme }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data: uPlot.AlignedData = [times, lines[0], lines[1]];
  useEffect(() => {
    const style = getComputedStyle(box.current!);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), font: `11px ${style.fontFamily}`, ticks: { show: false } };
    const grid = { stroke: colour("--line"), width: 1 };
    const line = (name: string) => ({ stroke: colour(name), fill: `${colour(name)}22`, width: 1.6, points: { show: false } });
    const made = new uPlot(
      {
        width: box.current!.clientWidth,
        height: HEIGHT,
        padding: [8, 18, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        scales: {
          // At first a minute, then up to all that is kept.
          x: { time: true, range: (_, min, max) => [max - Math.min(KEPT, Math.max(60, max - min)), max] },
          y: { range: (_, __, max) => [0, max > 0 ? max * 1.15 : 1] },
        },
        axes: [
          { ...axis, grid: { show: false }, size: 22, space: 90, values: (_, ticks) => ticks.map((t) => clock(t).slice(0, t % 60 === 0 ? 5 : 8)) },
          { ...axis, grid, size: 64, space: 34, values: (_, ticks) => ticks.map((value) => format(value)) },
        ],
        series: [{}, line("--there"), line("--back")],
      },
      data,
      box.current!,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => {
      const width = box.current?.clientWidth ?? 0;
      if (width > 0 && width !== made.width) made.setSize({ width, height: HEIGHT });
    });
    watcher.observe(box.current!);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme]);
  useEffect(() => plot.current?.setData(data));
  const latest = lines.map((values) => format(values[values.length - 1] ?? 0));
  return (
    <figure class="plot" aria-label={`${title} in the last five minutes; now ${names[0]} ${latest[0]}, ${names[1]} ${latest[1]}`}>
      <figcaption>{title}<Legend names={names} /></figcaption>
      <div ref={box} aria-hidden="true" />
    </figure>
  );
}
