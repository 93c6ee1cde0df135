/**
 * Text that leaves the page, to the byte: the clipboard, or a file that the browser saves where it saves files.
 */

/** Whether the page may write to the clipboard, and did. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A download by the browser: it works whether the kernel runs on this machine or on another. */
export function saveFile(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
