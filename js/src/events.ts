/**
 * What happened, in the past tense: the mirror of `acs_jupyter/log/events.py`.
 *
 * Fields that hold their default may be absent on the way; `state.ts` fills them in.
 */

/** Decoded text to natural-log probability: the sampled token and its alternatives. */
export type Top = Record<string, number>;

/** One entry of a prompt position: token id, text, logprob, rank. The real token comes first. */
export type Scored = [id: number, text: string, logprob: number, rank: number | null];

export type Outcome = "open" | "done" | "stopped" | "interrupted" | "failed";

/** Where a branch leaves another node: that node's first tokens are kept, then `text` follows. */
export interface Origin {
  node: string;
  tokens?: number;
  text?: string;
  /** It was sent as token ids; `seam`: the first kept token that the server reads otherwise; `cost`: tokens spent on asking. */
  exact?: boolean;
  seam?: number | null;
  cost?: number;
}

/** A part of a written node: tokens of another node, or, without `node`, a text. */
export interface Piece {
  node?: string;
  start?: number;
  stop?: number;
  text?: string;
}

/** A node that a person made; `run` is the one whose sampling it goes on with. */
export interface Written {
  node: string;
  run: string;
  parent?: string | null;
  pieces?: Piece[];
  finish_reason?: string | null;
  made_of?: string[];
}

/** A field of a node's arrangement, or of the whole tree's (`node` is ""), has a new value. */
export interface Change {
  node: string;
  field: string;
  value?: unknown;
}

/** A person changed the tree: nodes were written, then fields changed; see `acs_jupyter/log/events.py`. */
export interface Revised {
  type: "Revised";
  what: string;
  kind?: "step" | "view" | "undo" | "redo";
  written?: Written[];
  changes?: Change[];
  opened?: string[];
}

export type Event =
  | { type: "RunOpened"; run: string; request: Record<string, unknown>; request_id?: string | null }
  | {
      type: "NodeOpened";
      node: string;
      run: string;
      parent?: string | null;
      choice?: number | null;
      text?: string;
      ids?: number[] | null;
      echo?: boolean;
      origin?: Origin | null;
    }
  | {
      type: "Served";
      run: string;
      checkpoint?: string | null;
      completion_id?: string | null;
      request_id?: string | null;
      headers?: Record<string, string>;
    }
  | { type: "Waited"; run: string; note: string }
  | {
      type: "TokensArrived";
      node: string;
      /** Left out when it is what the tokens join to. */
      text?: string;
      tokens?: string[];
      logprobs?: (number | null)[];
      top?: (Top | null)[];
    }
  | { type: "PromptScored"; node: string; positions: (Scored[] | null)[] }
  | { type: "SeamSought"; node: string; seam?: number | null; cost: number }
  | { type: "Finished"; node: string; finish_reason: string; stop_reason?: string | number | null }
  | { type: "Spent"; run: string; prompt_tokens: number; completion_tokens: number; source?: string }
  | {
      type: "Failed";
      run: string;
      code: string;
      message: string;
      status?: number | null;
      request_id?: string | null;
      retryable?: boolean;
    }
  | { type: "RunClosed"; run: string; outcome: Outcome }
  | Revised;
