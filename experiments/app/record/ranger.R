# Ranger: 60 trees on LetterRecognition, then 50 rows predicted per job; one line is written at the end of each job.
library(ranger)
data(LetterRecognition, package = "mlbench")
jobs <- as.integer(commandArgs(trailingOnly = TRUE)[1])
set.seed(1)
forest <- ranger(lettr ~ ., data = LetterRecognition, num.trees = 60, num.threads = 1, seed = 1)
rows <- nrow(LetterRecognition)
for (job in seq_len(jobs)) {
  some <- sample.int(rows, 50)
  found <- predict(forest, LetterRecognition[some, ], num.threads = 1)$predictions
  cat(paste0(sum(as.integer(found)), "\n"))
}
