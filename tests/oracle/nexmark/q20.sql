select
    b.auction, b.bidder, b.price, b.channel, b.url, b.date_time as bid_date_time, b.extra as bid_extra,
    a.item_name, a.description, a.initial_bid, a.reserve, a.date_time as auction_date_time, a.expires, a.seller,
    a.category, a.extra as auction_extra
from
    bid as b inner join auction as a on b.auction = a.id
where
    a.category = 10
