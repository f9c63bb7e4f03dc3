-- Flights that leave New York's three airports, and what is needed to understand them. Files dropped into the folders become rows.

CREATE TABLE airlines (
  carrier STRING PRIMARY KEY,
  name STRING
) WITH (connector = 'landing', path = 'landing/airlines', format = 'csv', null = 'NA');

CREATE TABLE airports (
  faa STRING PRIMARY KEY,
  name STRING,
  lat DOUBLE,
  lon DOUBLE,
  tzone STRING
) WITH (connector = 'landing', path = 'landing/airports', format = 'csv', null = 'NA');

CREATE TABLE planes (
  tailnum STRING PRIMARY KEY,
  year INT,
  manufacturer STRING,
  model STRING,
  engines INT,
  seats INT
) WITH (connector = 'landing', path = 'landing/planes', format = 'csv', null = 'NA');

-- One row per airport and hour; a corrected observation replaces the first one.
CREATE TABLE weather (
  origin STRING,
  time_hour TIMESTAMP,
  temp DOUBLE,
  wind_dir INT,
  wind_speed DOUBLE,
  precip DOUBLE,
  visib DOUBLE,
  PRIMARY KEY (origin, time_hour)
) WITH (connector = 'landing', path = 'landing/weather', format = 'csv', null = 'NA');

-- Scheduled flights. Actual times are null until the flight has left; a flight that is cancelled leaves this table.
CREATE TABLE flights (
  year INT,
  month INT,
  day INT,
  carrier STRING,
  flight INT,
  origin STRING,
  dest STRING,
  tailnum STRING,
  sched_dep_time INT,
  dep_time INT,
  dep_delay INT,
  sched_arr_time INT,
  arr_time INT,
  arr_delay INT,
  air_time INT,
  distance INT,
  time_hour TIMESTAMP,
  PRIMARY KEY (year, month, day, carrier, flight, origin)
) WITH (connector = 'landing', path = 'landing/flights', format = 'csv', null = 'NA');

CREATE TABLE cancellations (
  year INT,
  month INT,
  day INT,
  carrier STRING,
  flight INT,
  origin STRING,
  dest STRING,
  PRIMARY KEY (year, month, day, carrier, flight, origin)
) WITH (connector = 'landing', path = 'landing/cancellations', format = 'csv', null = 'NA');
