// The lab's file: the running lab as one, to be saved or changed, and what a change would do before it is done.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./api";
import { Command, save, Trouble } from "./parts";
import type { Store } from "./store";
import { quoted, shown, things } from "./text";

interface Applied {
  steps: { line: string; ends: boolean }[];
  digest: string;
  stale?: boolean;
  done: boolean;
  troubles: string[];
  up: boolean;
}

const FILE = "/v1/lab/file";

/** A lab file with these places instead of those that it has. */
export function placed(text: string, places: string): string {
  const lines = text.replace(/\n+$/, "").split("\n");
  const from = lines.findIndex((line) => line.startsWith("x-layout:"));
  if (from >= 0) {
    const after = lines.slice(from + 1).findIndex((line) => /^\S/.test(line));
    lines.splice(from, after < 0 ? lines.length : after + 1);
  }
  return `${lines.join("\n").replace(/\n+$/, "")}\n${places}\n`;
}

/** The sign of a step's line, as a class. */
export function stepTone(line: string): string {
  return { "+": "ok", "-": "bad", "!": "bad", "~": "warn" }[line.trimStart()[0] ?? ""] ?? "";
}

interface Props {
  store: Store;
  /** Where everything stands, for a file. */
  places: () => string | null;
  close: () => void;
}

export function LabFile({ store, places, close }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [applied, setApplied] = useState<Applied | null>(null);
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState<string | null>(null);
  useEffect(() => box.current?.showModal(), []);
  const change = (text: string) => {
    setText(text);
    setApplied(null);
    setWhy(null);
  };
  const act = async (work: () => Promise<void>) => {
    setBusy(true);
    setWhy(null);
    await work().catch((error: Error) => setWhy(error.message));
    setBusy(false);
  };
  const read = () => act(async () => change((await ask<{ text: string }>("GET", FILE)).text));
  useEffect(() => void read(), []);
  const plan = () => act(async () => setApplied(await ask<Applied>("POST", FILE, { text })));
  const apply = () => act(async () => {
    const expected = applied!.digest;
    setApplied(null);
    setApplied(await ask<Applied>("POST", FILE, { text, expected }));
  });
  const lab = store.lab?.name ?? "lab";
  const steps = applied?.steps ?? [];
  const ends = steps.filter((step) => step.ends).length;
  const open = async (input: HTMLInputElement) => {
    const file = input.files?.[0];
    if (file) change(await file.text());
    input.value = "";
  };
  const stand = places();
  return (
    <dialog ref={box} onClose={close} aria-labelledby="file-title" class="file-dialog">
      <h2 id="file-title">Lab file</h2>
      <p class="muted small-print">The running lab, with all that was changed by hand. What you change here is shown as steps before anything is done.</p>
      <textarea id="file-text" aria-label="Lab file" value={text} spellcheck={false} rows={16} onInput={(event) => change(event.currentTarget.value)} />
      <div class="buttons">
        <label class="button">Open a file …<input type="file" accept=".yaml,.yml" id="file-open" onChange={(event) => void open(event.currentTarget)} /></label>
        <button type="button" onClick={read} disabled={busy} id="file-read">Read the lab again</button>
        {stand !== null && <button type="button" id="file-places" onClick={() => change(placed(text, stand))}>With places of the map</button>}
        <button type="button" id="file-save" disabled={text === ""} onClick={() => save(`${lab}.yaml`, new Blob([text], { type: "application/yaml" }))}>Save</button>
        <button type="button" class="primary" id="file-plan" disabled={busy || text === ""} onClick={plan}>Show the steps</button>
      </div>
      {why?.split("\n").map((words, at) => <Trouble key={at} words={words} />)}
      {applied && (
        <div id="file-steps" role="status">
          {applied.done && <p class="said ok">Done: {things(steps.length, "step")}.</p>}
          {!applied.done && steps.length === 0 && <p class="muted">The lab is as this file says.</p>}
          <ul class="steps">{steps.map(({ line }, at) => <li key={at} class={stepTone(line)}>{shown(line)}</li>)}</ul>
          {applied.troubles.map((words, at) => <Trouble key={at} words={words} />)}
          {!applied.done && (steps.length > 0 || applied.stale) && (
            <>
              {ends > 0 && <p class="reason">{things(ends, "step")} may end something that is in use.</p>}
              <button type="button" class={ends > 0 ? "danger" : "primary"} id="file-apply" disabled={busy} onClick={apply}>{steps.length > 0 ? `Apply ${things(steps.length, "step")}` : "Note the file"}</button>
            </>
          )}
        </div>
      )}
      <Command id="file-command" lines={[`netloom -l ${quoted(lab)} export lab -o FILE.yaml`, `netloom -l ${quoted(lab)} apply FILE.yaml`]} />
      <form method="dialog" class="buttons"><button>Close</button></form>
    </dialog>
  );
}
