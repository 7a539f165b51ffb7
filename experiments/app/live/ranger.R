# Ranger, periodic: ranger.R JOBS PERIOD SEED, the period in seconds (0: no pauses).
#
# A forest of 24 trees is trained on LetterRecognition; then each job predicts 50 rows and writes one line. A job that has
# run over later releases goes on with the first one that is still to come.
library(ranger)
data(LetterRecognition, package = "mlbench")
words <- commandArgs(trailingOnly = TRUE)
jobs <- as.integer(words[1])
period <- as.numeric(words[2])
forest <- ranger(lettr ~ ., data = LetterRecognition, num.trees = 24, num.threads = 1, seed = 1)
rows <- nrow(LetterRecognition)
set.seed(as.integer(words[3]))
for (job in seq_len(jobs)) {
  if (period > 0) {
    Sys.sleep(period - as.numeric(Sys.time()) %% period)
  }
  some <- sample.int(rows, 50)
  found <- predict(forest, LetterRecognition[some, ], num.threads = 1)$predictions
  cat(paste0(sum(as.integer(found)), "\n"))
}
