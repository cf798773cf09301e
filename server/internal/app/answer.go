package app

import "time"

// answerErrors is how many answers that cannot be given are logged a second.
const answerErrors = 10

// answerFailed logs why a request did not get the answer that its rule says, if there is an
// error: a file that was there when the configuration was read is gone, or may not be read.
func (a *App) answerFailed(err error) {
	if err == nil {
		return
	}
	if hidden, ok := a.answerLog.Take(time.Now()); ok {
		a.logger.Error("an answer cannot be given; a problem document is sent in its place", "error", err, "not_logged", hidden)
	}
}
