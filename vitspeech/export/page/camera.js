// The camera: frames until it is stopped, and what to say if there is none.

const REASONS = {
  NotAllowedError: "The camera was refused. Allow it in the browser's settings of this page, then try again.",
  NotFoundError: "No camera was found.",
  NotReadableError: "The camera can't be read; another program may be using it.",
};

/**
 * Start the camera.
 * @returns {Promise<{video: HTMLVideoElement, stop: function, ended: function}>}
 * @throws {Error} With a message for the user, if there is no camera or it is refused.
 */
export async function openCamera() {
  if (!isSecureContext) {
    throw new Error("The browser gives the camera to secure pages only: open this page by https, "
      + "or on this machine as http://localhost.");
  }
  if (!navigator.mediaDevices?.getUserMedia) throw new Error("This browser gives pages no camera.");
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 640 } } });
  } catch (error) {
    throw new Error(REASONS[error.name] ?? `The camera can't be used: ${error.message || error.name}`);
  }
  const video = document.createElement("video");
  Object.assign(video, { srcObject: stream, muted: true, playsInline: true });
  const stop = () => stream.getTracks().forEach((track) => track.stop());
  try {
    await video.play();
  } catch (error) {
    stop();
    throw new Error(`The camera can't be shown: ${error.message}`);
  }
  return { video, stop, ended: () => stream.getTracks().every((track) => track.readyState === "ended") };
}
