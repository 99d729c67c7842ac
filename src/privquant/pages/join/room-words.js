// What the page for a room says, in every language.

export default {
  en: {
    title: "Scan and answer with one bit",
    text: "Point the camera of your phone at the code. Your number stays on your phone; what leaves it is a yes or no, blurred by a coin.",
    flip: (flip) => `With a chance of ${flip} the phone sends the opposite of the truth.`,
    here: "Answer on this device",
    none: "This address has no open link. The organiser's console makes one: \"Link for a room\".",
    failed: "The code cannot be drawn: this link is not one of this server's campaigns.",
    code: "QR code of the link to answer",
  },
  de: {
    title: "Scannen und mit einem Bit antworten",
    text: "Richten Sie die Kamera Ihres Telefons auf den Code. Ihre Zahl bleibt auf dem Telefon; hinaus geht ein Ja oder Nein, von einer Münze verwischt.",
    flip: (flip) => `Mit einer Wahrscheinlichkeit von ${flip} sendet das Telefon das Gegenteil der Wahrheit.`,
    here: "Auf diesem Gerät antworten",
    none: "Diese Adresse hat keinen offenen Link. Die Konsole des Veranstalters macht einen: \"Link for a room\".",
    failed: "Der Code kann nicht gezeichnet werden: Dieser Link gehört zu keiner Umfrage dieses Servers.",
    code: "QR-Code des Links zum Antworten",
  },
};
