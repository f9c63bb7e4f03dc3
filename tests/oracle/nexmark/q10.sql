select
    auction,
    bidder,
    price,
    date_time,
    to_char(date_time, 'YYYY-MM-DD') as date,
    to_char(date_time, 'HH24:MI') as time
from bid
